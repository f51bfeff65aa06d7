# The worker, the codec server and the command line. test/deploy/image.test.ts builds the same contents without Docker:
# keep the steps in deploy/image.sh.
FROM node:24.21.0-bookworm-slim AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
# The build tools, with the scripts that package.json allows.
RUN npm ci --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY scripts ./scripts
COPY src ./src
COPY deploy/image.sh ./deploy/image.sh
RUN sh deploy/image.sh /app

FROM node:24.21.0-bookworm-slim
# Names of authorities change: those of Debian are trusted beside Node's own.
RUN apt-get update \
  && apt-get install --yes --no-install-recommends ca-certificates \
  && rm -rf /var/lib/apt/lists/*
ENV NODE_ENV=production \
  HOOKLADDER_WORKFLOW_BUNDLE=/app/workflow-bundle \
  HOOKLADDER_HEALTH_ADDRESS=0.0.0.0:9465
WORKDIR /app
COPY --from=build /app /app
# The command line: docker compose exec worker hookladder --help
RUN ln -s /app/dist/cli/main.js /usr/local/bin/hookladder
USER node
STOPSIGNAL SIGTERM
# Live, not ready: an orchestrator that restarts what cannot reach Temporal makes it no better.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.HOOKLADDER_HEALTH_ADDRESS.split(':').at(-1)}/healthz`).then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "/app/dist/cli/main.js"]
CMD ["worker"]
