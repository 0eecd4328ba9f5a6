#!/bin/sh
# Starts PostgreSQL, and makes the cluster first when there is none. Variables as in the official image:
# POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB, each also as NAME_FILE.
set -eu

case ${1:-} in
postgres) shift ;;
-*) ;;
*) exec "$@" ;;
esac

setting() { # NAME DEFAULT: the variable, or the content of the file that NAME_FILE names
    eval "value=\${$1:-} file=\${$1_FILE:-}"
    if [ -n "$value" ] && [ -n "$file" ]; then
        echo "$1 and $1_FILE are both set: set one of them" >&2
        exit 1
    fi
    [ -z "$file" ] || value=$(cat "$file")
    echo "${value:-$2}"
}

if [ ! -s "$PGDATA/PG_VERSION" ]; then
    user=$(setting POSTGRES_USER postgres)
    password=$(setting POSTGRES_PASSWORD '')
    database=$(setting POSTGRES_DB "$user")
    if [ -z "$password" ]; then
        echo 'POSTGRES_PASSWORD is empty: set it to make the first user' >&2
        exit 1
    fi
    # The cluster gets its name only when it is complete: an interrupted start leaves nothing that looks like one.
    new=$PGDATA.new
    rm -rf "$new"
    mkdir -p "$new"
    umask 077
    printf '%s\n' "$password" >/tmp/password
    initdb --pgdata="$new" --username="$user" --pwfile=/tmp/password --auth-local=trust --auth-host=scram-sha-256 \
        --encoding=UTF8 --locale=C.UTF-8 --no-instructions
    rm /tmp/password
    echo 'host all all all scram-sha-256' >>"$new/pg_hba.conf"
    # Single-user mode takes one statement a line, and needs no port, socket or password.
    [ "$database" = postgres ] ||
        echo "CREATE DATABASE \"$database\"" | postgres --single -D "$new" postgres >/dev/null
    mv "$new" "$PGDATA"
fi

exec postgres -c listen_addresses='*' -c unix_socket_directories=/var/run/postgresql "$@"
