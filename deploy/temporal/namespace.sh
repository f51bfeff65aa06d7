#!/bin/sh
# Creates the namespace with its retention and the search attributes that hookladder needs. May be run again at any time:
# a longer retention than asked for is kept.
set -eu

export TEMPORAL_ADDRESS="${TEMPORAL_ADDRESS:?host and port of the Temporal frontend}"
NAMESPACE=${TEMPORAL_NAMESPACE:-default}
RETENTION_HOURS=${RETENTION_HOURS:-720}
WAIT_SECONDS=${WAIT_SECONDS:-120}
TEMPORAL=${TEMPORAL_CLI:-temporal}

if [ "$RETENTION_HOURS" -lt 720 ]; then
  echo "RETENTION_HOURS must be at least 720 (30 days): for so long is a webhook id known after its end" >&2
  exit 1
fi

# Tries a command until it works.
until_it_works() {
  left=$WAIT_SECONDS
  until "$@" >/dev/null 2>&1; do
    left=$((left - 1))
    if [ "$left" -le 0 ]; then
      "$@"
      return
    fi
    sleep 1
  done
}

until_it_works "$TEMPORAL" operator cluster health

described() {
  "$TEMPORAL" operator namespace describe --namespace "$NAMESPACE" --output json 2>/dev/null
}

if ! described >/dev/null; then
  "$TEMPORAL" operator namespace create --namespace "$NAMESPACE" --retention "${RETENTION_HOURS}h"
fi
# Each part of the server takes a moment to know it.
until_it_works described
seconds=$(described | sed -n 's/.*"workflowExecutionRetentionTtl": *"\([0-9]*\)s".*/\1/p')
if [ "${seconds:-0}" -lt $((RETENTION_HOURS * 3600)) ]; then
  "$TEMPORAL" operator namespace update --namespace "$NAMESPACE" --retention "${RETENTION_HOURS}h"
fi

attributes() {
  "$TEMPORAL" operator search-attribute list --namespace "$NAMESPACE" --output json
}
until_it_works attributes
known=$(attributes)
add() {
  case $known in
    *"\"$1\""*) ;;
    *) "$TEMPORAL" operator search-attribute create --namespace "$NAMESPACE" --name "$1" --type "$2" ;;
  esac
}
add WebhookMerchant Keyword
add WebhookEvent Keyword
add WebhookPayment Keyword
add WebhookMoney Bool
add WebhookState Keyword
add WebhookBreaker Keyword

# Workers may start once a query by them is taken.
until_it_works "$TEMPORAL" workflow count --namespace "$NAMESPACE" --query \
  'WebhookMerchant IS NULL AND WebhookEvent IS NULL AND WebhookPayment IS NULL AND WebhookMoney IS NULL AND WebhookState IS NULL AND WebhookBreaker IS NULL'
echo "namespace $NAMESPACE is ready"
