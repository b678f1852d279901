// Package query answers SQL queries about a SQLite database, for a caller who
// can't open its file: the database is where the agent is.
package query
