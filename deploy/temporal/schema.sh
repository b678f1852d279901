#!/bin/sh
# Makes Temporal's two Postgres databases, or brings them up to the version of
# this server. Argument: the folder of the schema. SQL_PLUGIN, SQL_HOST,
# SQL_PORT, SQL_USER and SQL_PASSWORD are read by temporal-sql-tool itself.
set -eu

schema=$1

prepare() { # database, folder of its schema
	temporal-sql-tool --db "$1" create
	temporal-sql-tool --db "$1" setup-schema -v 0.0
	temporal-sql-tool --db "$1" update-schema -d "$schema/$2/versioned"
}

prepare temporal temporal
prepare temporal_visibility visibility
