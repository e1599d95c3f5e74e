// An issuer: a client that signs in with its secret gets a JWT. The resource urn:AUDIENCE:ALGORITHM that it names
// decides the audience and the algorithm. Arguments: port, certificate and key of the server.
import { generateKeyPairSync } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import Provider from "oidc-provider";

const [port, cert, key] = process.argv.slice(2);
const keys = [
  ["RS256", "rsa", { modulusLength: 2048 }],
  ["PS256", "rsa", { modulusLength: 2048 }],
  ["ES384", "ec", { namedCurve: "P-384" }],
  ["ES512", "ec", { namedCurve: "P-521" }],
  ["EdDSA", "ed25519", {}],
].map(([alg, type, options]) => {
  const jwk = generateKeyPairSync(type, options).privateKey.export({ format: "jwk" });
  return { ...jwk, use: "sig", kid: alg, alg };
});

const provider = new Provider(`https://127.0.0.1:${port}`, {
  jwks: { keys },
  clients: [{
    client_id: "compat",
    client_secret: "compat-secret",
    grant_types: ["client_credentials"],
    redirect_uris: [],
    response_types: [],
  }],
  extraTokenClaims: async () => ({ realm_access: { roles: ["dev", "ops"] } }),
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: async (_ctx, resource) => {
        const [, audience, alg] = resource.split(":");
        return { scope: "", audience, accessTokenTTL: 600, accessTokenFormat: "jwt", jwt: { sign: { alg } } };
      },
    },
  },
});
createServer({ cert: readFileSync(cert), key: readFileSync(key) }, provider.callback()).listen(port, "127.0.0.1");
