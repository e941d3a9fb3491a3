/** Names of sealed secrets, finalizers and annotations: the one place where they are spelled. */

/** Held on a MongoDB until nothing is left of it on any platform. */
export const CLUSTER_FINALIZER = 'belay.dev/cluster';
/** Held on a MongoDBUser until the database no longer knows the user (B3.5). */
export const USER_FINALIZER = 'belay.dev/database-user';
/** Held on an Operation until it has ended, so that deleting one that runs stops it first. */
export const OPERATION_FINALIZER = 'belay.dev/operation';
/** Label on an Operation: name of the MongoDB it is about, to list by. */
export const OPERATION_TARGET_LABEL = 'belay.dev/mongodb';
/** Annotation on an Operation: name of the token it was asked for with. */
export const REQUESTED_BY_ANNOTATION = 'belay.dev/requested-by';
/** Annotation on an Operation: somebody wants it stopped. */
export const CANCEL_ANNOTATION = 'belay.dev/cancel-requested';
/** On a cluster whose runtimes were removed by `belay delete --keep-volumes` (A14.2); gone when it is resumed. */
export const KEPT_ANNOTATION = 'belay.dev/kept-by-delete';
/** Annotation with a JSON list of sentences found at admission; they are repeated in the status. */
export const WARNINGS_ANNOTATION = 'belay.dev/warnings';

/** Everything secret of one cluster lies under here and goes with it (A14.3). */
export const clusterSecrets = (uid: string): string => `clusters/${uid}/`;
export const keyFileSecret = (uid: string): string => `clusters/${uid}/keyfile`;
/** HMAC key behind the owner markers (A4.3). */
export const ownerKeySecret = (uid: string): string => `clusters/${uid}/owner-key`;
export const systemPasswordSecret = (uid: string, user: string): string => `clusters/${uid}/users/${user}`;
/** Passwords on their way, below here; gone when they are the cluster's (A13.4). */
export const stagedPasswords = (uid: string): string => `clusters/${uid}/next-users/`;

/** Everything secret of one member; the slash at the end keeps `orders-1` from meaning `orders-10` too. */
export const memberSecrets = (uid: string, member: string): string => `clusters/${uid}/members/${member}/`;
/** Key and certificate of one member as one PEM (A2.6). */
export const memberCertificateSecret = (uid: string, member: string): string =>
  `${memberSecrets(uid, member)}certificate`;

/** The one that is to follow it: made and kept before anybody is given it (A9.4). */
export const stagedCertificateSecret = (uid: string, member: string): string =>
  `${memberSecrets(uid, member)}next-certificate`;

/** Below here lie the secrets that people name in documents. */
export const NAMED_SECRETS = 'users/';
/** Secrets that people name in documents: `users/<namespace>/<secret>/<key>`. */
export const namedSecret = (namespace: string, secret: string, key: string): string =>
  `users/${namespace}/${secret}/${key}`;
export const namedSecretPrefix = (namespace: string, secret: string): string =>
  `users/${namespace}/${secret}/`;

/** Key of the HMAC by which a changed password is noticed without keeping anything that could be guessed from. */
export const FINGERPRINT_KEY = 'installation/fingerprint-key';
