import { createParser, type EventSourceMessage } from 'eventsource-parser';

/** A block of server-sent events. */
export type Block = EventSourceMessage;

/**
 * Reads server-sent events until the stream ends, however its bytes are split. Every piece, comments too, is a sign of
 * life.
 */
export async function readEvents(body: ReadableStream<Uint8Array>, onBlock: (block: Block) => void, onLife: () => void): Promise<void> {
  const parser = createParser({ onEvent: onBlock });
  const decoder = new TextDecoder();
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onLife();
      parser.feed(decoder.decode(value, { stream: true }));
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
