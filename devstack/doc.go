// Sojourn-devstack runs everything that Sojourn needs in one process, for
// development and tests: a Temporal server on a SQLite file with its Web UI,
// NATS with JetStream, and an S3 gateway over a folder. All are the real
// servers, embedded.
//
//	sojourn-devstack --data-dir .dev/stack --env-file .dev/env
//
// When all are ready it writes the settings of Sojourn's programs to the env
// file as shell assignments and prints a table of addresses. SIGINT and SIGTERM
// stop it in order. Started again on the same folder it has every workflow,
// stream and object, and the same keys.
//
// It is a separate module, so that importers of Sojourn do not inherit the
// Temporal server's dependencies. Everything that is not a server is in
// internal/launch, whose tests need no server.
package main
