package session_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/sojourn-run/sojourn/adapters/builtin"
	"github.com/sojourn-run/sojourn/archive"
	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// The servers' addresses are in the standard variables: TEMPORAL_*, NATS_URL and AWS_*.
func ExampleNewClient() {
	ctx := context.Background()
	store, err := archive.Open(ctx, archive.Options{Bucket: "sojourn"})
	if err != nil {
		log.Fatal(err)
	}
	options, err := session.WithPayloads(client.Options{}, store)
	if err != nil {
		log.Fatal(err)
	}
	temporal, err := client.Dial(options)
	if err != nil {
		log.Fatal(err)
	}
	defer temporal.Close()
	events, err := stream.Dial(ctx, "nats://127.0.0.1:4222", stream.Options{Access: stream.AccessFrom(os.Getenv)})
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()
	c, err := session.NewClient(session.ClientOptions{
		Temporal: temporal, Stream: events, Archive: store, Agents: builtin.Registry(),
	})
	if err != nil {
		log.Fatal(err)
	}
	h, err := c.Open(ctx, "", session.Options{Agent: "claude"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.ID())
}

// A session from its first message to its end.
func Example() {
	ctx, c := context.Background(), connected() // see ExampleNewClient
	h, err := c.Open(ctx, "", session.Options{Agent: "claude"})
	if err != nil {
		log.Fatal(err)
	}
	r, err := h.Send(ctx, session.Message{Text: "Say hello"})
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range h.Events(ctx, r.AfterSeq, session.Follow) {
		if err != nil {
			log.Fatal(err)
		}
		if p, ok := ev.Payload.(event.BlockDelta); ok {
			fmt.Print(p.Delta)
		}
		if _, ended := session.ResultOf(ev, r.MessageID); ended {
			break
		}
	}
	res, err := h.Wait(ctx, r)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Outcome)
	if err := h.Close(ctx); err != nil {
		log.Fatal(err)
	}
}

// With an id of your own, Open gets or creates: the second program that runs this
// attaches to the session of the first.
func ExampleClient_Open() {
	ctx, c := context.Background(), connected()
	h, err := c.Open(ctx, "nightly-review", session.Options{
		Agent: "claude", Title: "Nightly review", Tags: []string{"review"},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := h.Close(ctx); err != nil {
			log.Print(err)
		}
	}()
	fmt.Println(h.ID())
}

// Send returns when the message is accepted; Wait, in this process or another,
// returns when it is answered.
func ExampleHandle_Send() {
	ctx, h := context.Background(), opened()
	r, err := h.Send(ctx, session.Message{ID: "ticket-4711", Text: "Fix the failing test"})
	if err != nil {
		log.Fatal(err)
	}
	// Sending it again, after a crash say, returns the same receipt.
	again, err := h.Send(ctx, session.Message{ID: "ticket-4711", Text: "Fix the failing test"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r == again)
}

func ExampleHandle_Wait() {
	ctx, h := context.Background(), opened()
	r, err := h.Send(ctx, session.Message{Text: "Say hello"})
	if err != nil {
		log.Fatal(err)
	}
	res, err := h.Wait(ctx, r)
	if err != nil {
		log.Fatal(err) // the waiting failed, not the agent
	}
	if err := res.Err(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Result.Response)
}

// Text is shown as it is typed. A reader that was disconnected continues after
// the last sequence number it has seen: nothing is missed or repeated.
func ExampleHandle_Events() {
	ctx, h := context.Background(), opened()
	last := uint64(0)
	for ev, err := range h.Events(ctx, last, session.Follow) {
		if err != nil {
			log.Fatal(err)
		}
		last = ev.Context.Seq
		switch p := ev.Payload.(type) {
		case event.BlockDelta:
			fmt.Print(p.Delta)
		case event.QueryCompleted:
			if cost := p.Result.CostUSD; cost != nil { // not every agent reports it
				fmt.Printf("\n$%.4f\n", *cost)
			}
		}
	}
}

// Show needs no sandbox and no worker.
func ExampleClient_Show() {
	ctx, c := context.Background(), connected()
	conv, err := c.Show(ctx, "nightly-review", session.FromAuto)
	if err != nil {
		log.Fatal(err)
	}
	for _, b := range conv.State.Blocks {
		if b.Content != nil {
			fmt.Printf("%s: %s\n", b.Type, *b.Content)
		}
	}
}

// A child is a separate session in a separate sandbox; it ends when it has
// answered.
func ExampleHandle_Spawn() {
	ctx, c, h := context.Background(), connected(), opened()
	child, err := h.Spawn(ctx, session.SpawnRequest{
		Message: session.Message{Text: "Look for dead code"}, Description: "dead code",
	})
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range c.Events(ctx, child.ChildID, 0, session.Follow) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(ev.Type())
	}
}

func ExampleClient_List() {
	ctx, c := context.Background(), connected()
	o := session.ListOptions{Query: "SojournAgent = 'claude' AND SojournCostUSD > 1"}
	for {
		page, err := c.List(ctx, o)
		if err != nil {
			log.Fatal(err)
		}
		for _, s := range page.Sessions {
			fmt.Printf("%s  %s  %d turns\n", s.SessionID, s.Title, s.Turns)
		}
		if o.PageToken = page.Next; o.PageToken == "" {
			return
		}
	}
}

// An interrupt may carry the message that runs next.
func ExampleHandle_Interrupt() {
	ctx, h := context.Background(), opened()
	_, err := h.Interrupt(ctx, session.InterruptRequest{
		Reason: "wrong branch", Message: &session.Message{Text: "Work on main instead"},
	})
	if err != nil {
		log.Fatal(err)
	}
}

// What is sent gets a line in a log, and a bound in time.
func ExampleHandle_Use() {
	ctx, h := context.Background(), opened()
	h = h.Use(func(ctx context.Context, call *session.Call, next func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		err := next(ctx)
		log.Printf("session %s: %s: %v", call.SessionID, call.Operation, err)
		return err
	})
	if _, err := h.Send(ctx, session.Message{Text: "Fix the tests"}); err != nil {
		log.Fatal(err)
	}
}

// A process that only follows a session.
func ExampleHandle_Listen() {
	ctx, h := context.Background(), opened()
	err := h.Listen(ctx, 0, session.Callbacks{
		OnTickStart: func(tick int, execution string) { fmt.Printf("model call %d\n", tick) },
		OnComplete:  func(r session.Result) { fmt.Println(r.ExecutionID, r.Outcome) },
		OnError:     func(err error) { fmt.Println(err) },
	})
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleValidateID() {
	fmt.Println(session.ValidateID("id", "nightly-review"))
	fmt.Println(session.ValidateID("id", "nightly review"))
	// Output:
	// <nil>
	// id: "nightly review" is not an id; want 1 to 64 of the characters A-Z a-z 0-9 _ -
}

// connected and opened represent what ExampleNewClient does.
func connected() *session.Client { return nil }

func opened() *session.Handle { return nil }
