/** Limits of the protocol and of one process, with their reasons. Sizes are bytes. */

/** A message with its header; a longer one ends the connection without an answer. */
export const MAX_MESSAGE_BYTES = 48_000_000;
/** One stored document. */
export const MAX_DOCUMENT_BYTES = 16 * 1024 * 1024;
/** Statements in one insert, update or delete command. */
export const MAX_WRITE_BATCH = 100_000;
/** Handed-in client metadata in `hello`; other members may send twice that. */
export const MAX_CLIENT_METADATA_BYTES = 512;
export const MAX_INTERNAL_CLIENT_METADATA_BYTES = 1024;
export const MAX_APP_NAME_BYTES = 128;
/** Requests read ahead of the one being served, per connection; more pauses the socket. */
export const MAX_QUEUED_REQUESTS = 64;
/** Document sequences in one message. */
export const MAX_SEQUENCES = 8;
/** Minutes a logical session lives, as `hello` reports it. */
export const SESSION_TIMEOUT_MINUTES = 30;
