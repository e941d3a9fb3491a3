import { CATALOG, PBM_PACKAGE_VERSION } from './catalog.ts';
import { elementFields, isEmpty } from './explain.ts';
import { MANAGED_KEYS } from './managedKeys.ts';
import { API_VERSION } from './meta.ts';
import { KINDS, type KindInfo } from './registry.ts';
import { type FieldShape, shapeOf } from './shapes.ts';

/** The reference of the language as Markdown: all kinds with their fields, the catalog, and the keys Belay owns. */
export function referenceMarkdown(): string {
  const parts = [
    '# Reference of resources',
    `Generated from the schemas; do not edit. All kinds have \`apiVersion: ${API_VERSION}\`.`,
    kindTable(),
    ...KINDS.map(kindSection),
    catalogSection(),
    managedKeySection(),
  ];
  return `${parts.join('\n\n')}\n`;
}

function kindTable(): string {
  const rows = KINDS.map((info) => {
    const names = [info.plural, ...info.shortNames].map((name) => `\`${name}\``).join(', ');
    return `| [${info.kind}](#${info.kind.toLowerCase()}) | ${names} | ${info.readOnly ? 'server' : 'you'} | ${info.description} |`;
  });
  return ['| kind | names | written by | what it is |', '|---|---|---|---|', ...rows].join('\n');
}

function kindSection(info: KindInfo): string {
  const root = shapeOf(info.kind, info.schema);
  const sections = ['spec', 'status'].map((name) => {
    const schema = elementFields(root).get(name);
    if (schema === undefined) return '';
    return `### ${info.kind}.${name}\n\n${fieldTable(name, shapeOf(name, schema))}`;
  });
  return [`## ${info.kind}`, info.description, ...sections].join('\n\n');
}

function fieldTable(path: string, shape: FieldShape): string {
  return ['| field | type | default | description |', '|---|---|---|---|', ...fieldRows(path, shape)].join(
    '\n',
  );
}

function fieldRows(path: string, shape: FieldShape): string[] {
  return [...elementFields(shape)].flatMap(([name, schema]) => {
    const field = shapeOf(name, schema);
    const here = `${path}.${name}`;
    const below = field.type.startsWith('list of fields') ? `${here}[]` : here;
    return [fieldRow(here, field), ...fieldRows(below, field)];
  });
}

function fieldRow(path: string, field: FieldShape): string {
  const type =
    field.options.length > 0 ? field.options.map((option) => `\`${option}\``).join(' ') : field.type;
  const value =
    field.defaultValue === undefined || isEmpty(field.defaultValue) ? '' : JSON.stringify(field.defaultValue);
  const shown = field.required ? 'required' : value === '' ? '' : `\`${value}\``;
  return `| \`${path}\` | ${type} | ${shown} | ${field.description.replaceAll('|', '\\|').replaceAll('<', '&lt;')} |`;
}

function catalogSection(): string {
  const rows = CATALOG.map((build) => {
    const note = build.isDefault ? 'default' : build.deprecated ? 'deprecated' : '';
    return `| ${build.version} | ${build.series} | ${note} | ${build.source.index}, read ${build.source.readOn} |`;
  });
  return [
    '## Catalog',
    `Percona Server for MongoDB; backups are taken by Percona Backup for MongoDB ${PBM_PACKAGE_VERSION}.`,
    ['| version | series | | source |', '|---|---|---|---|', ...rows].join('\n'),
  ].join('\n\n');
}

function managedKeySection(): string {
  const rows = MANAGED_KEYS.map(({ prefix, instead }) => `| \`${prefix}\` | ${instead} |`);
  return [
    '## Keys of the mongod configuration that Belay owns',
    'Refused in every additionalMongodConfig, in dotted and nested form and in any case, with everything below them.',
    ['| key | instead |', '|---|---|', ...rows].join('\n'),
  ].join('\n\n');
}
