// The contract of a job, as far as this example uses it: docs/contract.md has all of it.

export interface JobInput {
  options: { agent: string; model?: string; limits?: { costUSD?: number } };
  prompt: string;
  files?: { path: string; text?: string; base64?: string }[];
  schema?: object;
  artifacts?: string[];
}

export interface JobResult<T> {
  sessionId: string;
  response: string;
  value?: T;
  repairs?: number;
  costUSD?: number;
  artifacts?: { path: string; size: number; sha256: string }[];
}
