/** Sojourn's sessions over a gateway (`sojourn serve`). The hooks for React are in `@sojourn-run/client/react`. */
export { Client, type ClientOptions, type ListOptions, type Shown, type WorkspaceFile } from './client.js';
export { GatewayError } from './errors.js';
export { SessionList, type SessionListOptions, type SessionListState } from './list.js';
export { LiveSession, type LiveState, type LogLine } from './live.js';
export { conversation, empty, reduce } from './reduce.js';
export { Rooms, type Room, type Socket } from './rooms.js';
export type * from './types.js';
