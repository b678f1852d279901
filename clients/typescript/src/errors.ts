/** Problem is how a gateway says what could not be done. */
export interface Problem {
  code: string;
  message: string;
  field?: string;
  reason?: string;
  want?: string;
}

/** GatewayError is a request that could not be done. */
export class GatewayError extends Error {
  override name = 'GatewayError';
  constructor(
    message: string,
    /** code is what programs branch on: invalid, unauthorized, not_found, closed, busy, exists, no_worker, …; unanswered if a server in between has answered. */
    readonly code: string,
    /** status is the HTTP status; 0 for a room. */
    readonly status: number,
    /** field, reason and want are set for bad input. */
    readonly field?: string,
    readonly reason?: string,
    readonly want?: string,
  ) {
    super(message);
  }

  static of(p: Problem, status = 0): GatewayError {
    return new GatewayError(p.message, p.code, status, p.field, p.reason, p.want);
  }
}
