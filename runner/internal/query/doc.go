// Package query answers SQL queries about a SQLite database, for somebody who
// can't open its file: the database is where the agent is.
package query
