/** A call of the API: its method, its path and its body. */
export interface Call {
  method: string;
  path: string;
  body?: unknown;
  headers?: Record<string, string>;
}

const inQuotes = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** Returns a curl command line for a call at a node. The token comes from the environment. */
export function curlOf(origin: string, call: Call, withToken: boolean): string {
  return [
    `curl -X ${call.method} ${inQuotes(origin + call.path)}`,
    withToken ? '-H "Authorization: Bearer $ROTA_TOKEN"' : '',
    ...Object.entries(call.headers ?? {}).map(([name, value]) => `-H ${inQuotes(`${name}: ${value}`)}`),
    call.body === undefined ? '' : `-H 'Content-Type: application/json' -d ${inQuotes(JSON.stringify(call.body))}`,
  ]
    .filter(Boolean)
    .join(' ');
}
