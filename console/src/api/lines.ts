/** A line is cut off at this many characters: no node sends one that long. */
const most = 8 << 20;

/**
 * Reads lines until the stream ends, however its bytes are split; empty ones are only signs of life. Text after the
 * last line break is not a line.
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
