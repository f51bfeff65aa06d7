#!/bin/sh
# Makes what docker-compose.yml asks for and git ignores: hookladder.env with passwords, and secrets/ with a key of each kind.
# May be run again at any time: what is there stays as it is, since nothing can be read without its keys.
set -eu
umask 077
cd "$(dirname "$0")"

password() {
  head -c 24 /dev/urandom | od -An -v -tx1 | tr -d ' \n'
}
key() {
  printf 'k1:%s\n' "$(head -c 32 /dev/urandom | base64)"
}

# Each comes to be whole or not at all.
if [ -e hookladder.env ]; then
  echo "deploy/hookladder.env is there already"
else
  sed "s/^\(POSTGRES_PASSWORD\)=$/\1=$(password)/; s/^\(GRAFANA_PASSWORD\)=$/\1=$(password)/" example.env > hookladder.env.new
  mv hookladder.env.new hookladder.env
  echo "deploy/hookladder.env is made"
fi
if [ -e secrets ]; then
  echo "deploy/secrets is there already"
else
  rm -rf secrets.new
  mkdir secrets.new
  key > secrets.new/secret-keys
  key > secrets.new/encryption-keys
  mv secrets.new secrets
  echo "deploy/secrets is made: keep a copy of it elsewhere"
fi
