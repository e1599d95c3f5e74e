/** A line is cut off at so many characters: nothing that a node sends is so long. */
const most = 8 << 20;

/**
 * Reads lines until the stream ends, however its bytes are cut; empty ones are signs of life alone.
 * What comes after the last line break is no line.
 */
export async function readLines(body: ReadableStream<Uint8Array>, onLine: (line: string) => void, onLife: () => void): Promise<void> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onLife();
      rest += decoder.decode(value, { stream: true });
      const lines = rest.split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) if (line) onLine(line);
      if (rest.length > most) throw new Error('the node sent a line without an end');
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
