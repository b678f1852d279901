// Package query answers SQL queries about a SQLite database for a caller who
// can't open its file, because the database is in the agent's sandbox.
package query
