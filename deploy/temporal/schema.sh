#!/bin/sh
# Creates or updates Temporal's schemas in PostgreSQL, with the tools of the server's own version. May be run again at any
# time; it does not downgrade.
set -eu

: "${POSTGRES_HOST:?the host of PostgreSQL}"
: "${POSTGRES_USER:?a user of PostgreSQL that may create databases}"
: "${POSTGRES_PASSWORD:?the password of that user}"
# Read by the tool: on its command line everybody would see the password.
export SQL_PASSWORD="$POSTGRES_PASSWORD"
export SQL_HOST="$POSTGRES_HOST" SQL_PORT="${POSTGRES_PORT:-5432}" SQL_USER="$POSTGRES_USER" SQL_PLUGIN=postgres12
SQL_TOOL=${TEMPORAL_SQL_TOOL:-temporal-sql-tool}

prepare() {
  SQL_DATABASE=$1
  export SQL_DATABASE
  "$SQL_TOOL" create-database
  "$SQL_TOOL" setup-schema --version 0.0
  "$SQL_TOOL" update-schema --schema-name "$2"
  echo "the schema of $1 is up to date"
}

prepare "${TEMPORAL_DB:-temporal}" postgresql/v12/temporal
prepare "${TEMPORAL_VISIBILITY_DB:-temporal_visibility}" postgresql/v12/visibility
