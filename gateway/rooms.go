package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/sojourn-run/sojourn/event"
	"github.com/sojourn-run/sojourn/event/older"
	"github.com/sojourn-run/sojourn/session"
	"github.com/sojourn-run/sojourn/stream"
)

// allLists is the room of changes of lists.
const allLists = "*"

const (
	// maxRooms bounds the rooms of one client.
	maxRooms = 200
	// writeTime is how long a client may leave a message unread before it is disconnected.
	writeTime = 10 * time.Second
	// pingEvery is how often a client is asked whether it is there.
	pingEvery = 30 * time.Second
)

// errTooMany: a client is in as many rooms as it may be.
var errTooMany = errors.New("too many rooms")

// command is what a client sends.
type command struct {
	Join  string `json:"join,omitempty"`
	Leave string `json:"leave,omitempty"`
	// After is the number of the last event that the client has.
	After uint64 `json:"after,omitempty"`
	// Names are those of an older system: v1, v2 or v3. Default: the stream's own.
	Names string `json:"names,omitempty"`
}

// message is what a client is sent.
type message struct {
	Room  string       `json:"room,omitempty"`
	Event *event.Event `json:"event,omitempty"`
	// Left: nothing more comes of the room.
	Left  bool     `json:"left,omitempty"`
	Error *problem `json:"error,omitempty"`
	// After is that of the join that has ended with Left or Error: another one may be on its way.
	After uint64 `json:"after,omitempty"`
}

// visitor is one client with its rooms.
type visitor struct {
	g    *gateway
	conn *websocket.Conn
	// ctx ends with the connection, and a write that ends before it ends the connection: a room that
	// is left must not.
	ctx context.Context
	mu  sync.Mutex
	// rooms are those that it is in, each with what ends it.
	rooms map[string]*room
	all   sync.WaitGroup
}

// room is one that a client is in.
type room struct {
	leave context.CancelFunc
	// done is closed when nothing more is sent of it.
	done chan struct{}
}

func (g *gateway) rooms(w http.ResponseWriter, r *http.Request) error {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{OriginPatterns: g.Origins})
	if err != nil {
		g.Log.Debug("no websocket", "error", err)
		return nil // it is answered
	}
	conn.SetReadLimit(64 << 10)
	ctx, cancel := context.WithCancel(r.Context())
	v := &visitor{g: g, conn: conn, ctx: ctx, rooms: map[string]*room{}}
	v.all.Go(func() { v.ping(ctx, cancel) })
	v.listen(ctx)
	cancel()
	v.all.Wait()
	_ = conn.CloseNow() // who has gone has gone
	return nil
}

// ping ends ctx when the client does not answer any more.
func (v *visitor) ping(ctx context.Context, cancel context.CancelFunc) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asked, done := context.WithTimeout(ctx, writeTime)
		err := v.conn.Ping(asked)
		if done(); err != nil {
			cancel()
			return
		}
	}
}

// listen does what the client asks until it goes.
func (v *visitor) listen(ctx context.Context) {
	for {
		_, raw, err := v.conn.Read(ctx)
		if err != nil {
			return
		}
		var c command
		err = decode(raw, &c)
		switch {
		case err != nil:
			err = session.Invalid("message", err.Error(), `{"join": ID, "after": N} or {"leave": ID}`)
		case (c.Join == "") == (c.Leave == ""):
			err = session.Invalid("message", "has neither join nor leave, or both", `{"join": ID, "after": N} or {"leave": ID}`)
		case c.Leave != "":
			v.leave(c.Leave)
		default:
			err = v.join(ctx, c)
		}
		if err != nil {
			v.report(c, err)
		}
	}
}

// report sends what could not be done.
func (v *visitor) report(c command, err error) {
	_, p := problemOf(err)
	_ = v.send(message{Room: c.Join, Error: &p, After: c.After}) // reading ends too
}

func (v *visitor) send(m message) error {
	ctx, cancel := context.WithTimeout(v.ctx, writeTime)
	defer cancel()
	return wsjson.Write(ctx, v.conn, m)
}

// join enters a room. A room that the client is in begins anew.
func (v *visitor) join(ctx context.Context, c command) error {
	var names *older.Translator
	if c.Names != "" {
		var err error
		if names, err = older.New(c.Names); err != nil {
			return session.Invalid("names", fmt.Sprintf("are %q", c.Names), "v1, v2 or v3")
		}
	}
	if c.Join != allLists {
		if err := session.ValidateID("join", c.Join); err != nil {
			return err
		}
	}
	before := v.leave(c.Join)
	inside, leave := context.WithCancel(ctx)
	now := &room{leave, make(chan struct{})}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.rooms) >= maxRooms {
		leave()
		return fmt.Errorf("%w: at most %d at a time", errTooMany, maxRooms)
	}
	v.rooms[c.Join] = now
	v.all.Go(func() {
		defer close(now.done)
		defer leave()
		if before != nil {
			<-before.done // its last event is sent before the first of this one
		}
		v.stay(inside, c, names)
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.rooms[c.Join] == now {
			delete(v.rooms, c.Join)
		}
	})
	return nil
}

// leave leaves a room, and returns it if the client was in it.
func (v *visitor) leave(id string) *room {
	v.mu.Lock()
	defer v.mu.Unlock()
	in := v.rooms[id]
	if in != nil {
		in.leave()
		delete(v.rooms, id)
	}
	return in
}

// stay sends what happens in a room until it is left, and why nothing more comes.
func (v *visitor) stay(ctx context.Context, c command, names *older.Translator) {
	err := v.follow(ctx, c, names)
	switch {
	case ctx.Err() != nil: // it was left
	case err != nil:
		v.report(c, err)
	default:
		_ = v.send(message{Room: c.Join, Left: true, After: c.After}) // reading ends too
	}
}

// follow sends what happens in a room. For older names all that there is is read, since what they
// say of an event depends on those before.
func (v *visitor) follow(ctx context.Context, c command, names *older.Translator) error {
	if c.Join == allLists {
		return v.followLists(ctx)
	}
	if _, err := v.g.Sessions.Get(ctx, c.Join); errors.Is(err, session.ErrNotFound) {
		return err // who else can't be asked does not keep the stream's events from the client
	}
	events := v.g.Sessions.Events(ctx, c.Join, c.After, session.Follow)
	if names != nil {
		events = stream.Left(0, func(after uint64) iter.Seq2[event.Event, error] {
			return v.g.Sessions.Events(ctx, c.Join, after, session.Follow)
		})
	}
	for ev, err := range events {
		if err != nil {
			return err
		}
		if err := v.pass(ctx, c, names, ev); err != nil {
			return err
		}
	}
	return nil
}

// pass sends an event, or what it is under older names.
func (v *visitor) pass(ctx context.Context, c command, names *older.Translator, ev event.Event) error {
	all := []event.Event{ev}
	if names != nil {
		var err error
		if all, err = names.Events(ev); err != nil {
			return err
		}
	}
	if ev.Context.Seq <= c.After {
		return nil
	}
	for _, ev := range all {
		if ctx.Err() != nil {
			return ctx.Err() // a page that was read ahead is not sent any more
		}
		if err := v.send(message{Room: c.Join, Event: &ev}); err != nil {
			return errors.Join(err, v.conn.CloseNow())
		}
	}
	return nil
}

func (v *visitor) followLists(ctx context.Context) error {
	for change, err := range v.g.Sessions.Changes(ctx) {
		if err != nil {
			return err
		}
		data, err := json.Marshal(change)
		if err != nil {
			return err
		}
		ev := event.Event{Payload: event.Unknown{Name: "sessions:changed", Raw: data}, Context: event.Context{SessionID: change.SessionID}}
		if err := v.send(message{Room: allLists, Event: &ev}); err != nil {
			return errors.Join(err, v.conn.CloseNow())
		}
	}
	return nil
}
