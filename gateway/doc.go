// Package gateway offers sessions to programs that speak neither Go nor Temporal: REST for requests,
// and rooms over a WebSocket for events, with the names that the stream has.
//
//	handler, err := gateway.New(gateway.Options{Sessions: sessions, Token: token})
//	err = http.ListenAndServe("127.0.0.1:7244", handler)
//
// # Requests
//
//	POST   /sessions                            create: session.Options and id; 201
//	GET    /sessions                            a page: limit, page, query, children
//	POST   /sessions/merge                      {ids, id}; 201
//	GET    /sessions/{id}                       the conversation, to event lastSeq, whether it is open, and its state if a worker has it
//	GET    /sessions/{id}/state                 the state alone
//	DELETE /sessions/{id}                       close it, and delete all that is stored of it; 204
//	POST   /sessions/{id}/messages              session.Message; 202 and the receipt, with ?wait=true 200 and the result
//	GET    /sessions/{id}/messages/{message}    the result of a message or an execution
//	PATCH  /sessions/{id}/options               session.Configure; the state after it
//	POST   /sessions/{id}/interrupt             session.InterruptRequest
//	POST   /sessions/{id}/respond               session.RespondRequest; 204
//	POST   /sessions/{id}/sync                  wait until nothing runs and the archive has what was said
//	POST   /sessions/{id}/environment/terminate give up an idle sandbox; 204
//	POST   /sessions/{id}/close, …/open         204, 200
//	POST   /sessions/{id}/fork                  {at, id}; 201
//	GET    /sessions/{id}/files, …/files/{path} the workspace as it was archived
//	GET    /ws                                  the WebSocket
//
// Bodies and answers are JSON. An error is {"error": {code, message, field, reason, want}} with a
// status that says the same: 400 for bad input, which is refused before anything is done, 401, 404,
// 409 for a session that is closed, busy, paused or there already, 503 for a server or worker that is
// away; what was asked then may still be done, and a message is sent again with its id. Every request has the token, as Authorization: Bearer, or for a WebSocket of a browser as
// ?access_token=.
//
// # Rooms
//
// A client sends {"join": ID, "after": N, "names": "v2"}, and gets each event behind number N as
// {"room": ID, "event": {type, payload, context}}, until {"leave": ID}, or {"room": ID, "left": true,
// "after": N} when the session is closed. The room "*" has the changes of lists, as sessions:changed. What can't be
// done is {"room": ID, "error": …, "after": N}, and nothing more comes of that room. A client that does not read is
// disconnected, and joins again with the last number that it has seen: nothing is lost. Under older
// names several events may have one number: such a client joins with the number before its last, and
// drops what it has.
//
// clients/typescript is a client of it, for web pages too.
//
//go:generate go run ../internal/contract .. ../clients/typescript/src/types.ts
package gateway
