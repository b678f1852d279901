/** call calls a listener. What that throws is reported as an uncaught error, and other listeners are called all the same. */
export function call(listener: () => void): void {
  try {
    listener();
  } catch (error) {
    queueMicrotask(() => { throw error; });
  }
}

/** pause waits so many milliseconds, unless the signal is aborted. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const aborted = () => { clearTimeout(timer); reject(signal!.reason); };
    const timer = setTimeout(() => { signal?.removeEventListener('abort', aborted); resolve(); }, ms);
    signal?.addEventListener('abort', aborted, { once: true });
  });
}
