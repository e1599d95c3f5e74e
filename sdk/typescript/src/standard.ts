/**
 * A schema of any library that implements the Standard Schema convention (version 1), such as zod, valibot or arktype:
 * it checks a value and has its types.
 */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Result<Output> | Promise<Result<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

type Result<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly { readonly message: string; readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined }[] };

/** The input type of a schema. */
export type InputOf<S extends StandardSchema> = NonNullable<S["~standard"]["types"]>["input"];
/** The output type of a schema. */
export type OutputOf<S extends StandardSchema> = NonNullable<S["~standard"]["types"]>["output"];

/** Returns the schema's output for a value; throws an Error that names each issue by its path. */
export async function validated(schema: StandardSchema | undefined, value: unknown): Promise<unknown> {
  if (schema === undefined) return value;
  const pending = schema["~standard"].validate(value);
  const result = pending instanceof Promise ? await pending : pending;
  if (result.issues === undefined) return result.value;
  const texts = result.issues.slice(0, 10).map((issue) => {
    const path = (issue.path ?? []).map((p) => String(typeof p === "object" ? p.key : p)).join(".");
    return path ? `${path}: ${issue.message}` : issue.message;
  });
  throw new Error(texts.join("; "));
}
