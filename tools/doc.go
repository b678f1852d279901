// Package tools offers functions of a program of yours as tools to the agents of sessions: a call becomes an activity
// on the program's task queue, so it outlives the worker, the host and the agent's patience, and is
// made once.
//
//	find, err := tools.New("find_order", "Finds an order by its number.",
//		func(ctx context.Context, call tools.Call, in FindOrder) (Order, error) { … })
//	w := worker.New(temporal, "orders", worker.Options{})
//	tools.Register(w, nil, find)                        // this program runs the calls
//	h, err := sessions.Create(ctx, "", session.Options{ // and this session has the tool
//		Agent: "claude", Tools: tools.Offer("orders", find),
//	})
//
// ClientOptions.Tools adds tools to every session that a client creates. A program in another
// language registers an activity named [ActivityType] of the tool, which takes a [Call] and returns
// any JSON, and describes the tool as session.Tool does.
//
// The agent has the tool by MCP, as one of the server sojourn, under the session's rules of
// permission. A call that runs for longer than an agent may wait returns its id, and the agent asks
// for the result with wait_tool. In the Web UI a call is a workflow of its own, of type [Type].
package tools
