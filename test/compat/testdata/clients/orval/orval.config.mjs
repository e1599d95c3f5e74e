export default { rota: { input: "./openapi.json", output: { target: "./gen.ts", client: "fetch", mode: "single" } } };
