/** Sojourn's sessions over a gateway (`sojourn serve`). The hooks for React are in `@sojourn-run/client/react`. */
export { Client, GatewayError, type ClientOptions, type ListOptions, type Shown, type WorkspaceFile } from './client.js';
export { LiveSession, type LiveState, type LogLine } from './live.js';
export { conversation, empty, reduce } from './reduce.js';
export { Rooms, type Room, type Socket } from './rooms.js';
export type * from './types.js';
