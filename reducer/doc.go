// Package reducer folds events into the state of a conversation. It is the
// one place that defines what events mean: the live stream, a restored
// transcript, the command line and every client go through it, and so show
// the same thing.
//
//	var b reducer.Builder
//	for e, err := range jsonl.Decode(os.Stdin) {
//		if err != nil {
//			return err
//		}
//		b.Add(e)
//	}
//	state := b.State()
//
// [State] is the conversation: blocks and subagents, folded by [Reduce],
// [Builder] or [Fold]. Events that do not concern it have no effect, so it may be
// fed everything. Package overview folds the rest of a session, and package loss
// reconciles a conversation after its agent was lost.
//
// # Rules of the conversation
//
// block:upsert merges the set fields into the block with that id, or creates
// it. A field is set if it is neither nil nor "" (a list or map: if it is not
// empty); metadata merges key by key. A new block gets the defaults of
// its type (content "", input {}, output null, isError false, message "",
// status and execution pending) and, when it has no timestamp, the event's. A
// block created by an event with source server bears that source, and keeps
// it. A block for an unknown conversation creates that subagent, running. An
// upsert without id, or of a new block without type, does nothing.
//
// A block whose metadata has "lost": true was streamed, and then withdrawn by its
// agent or lost with it before it was persisted. An upsert with a type, the
// status pending or complete, and without that mark recreates it: the lost block
// is dropped and the new one is appended. A lost server block that is an empty
// text was never visible, and one that is an empty user message is kept under
// another id: an upsert that makes a block such a one drops it.
//
// block:delta appends to the content. An empty delta, an unknown block or
// conversation, or a block whose type has no text: no change.
//
// subagent:spawned creates the subagent, running, and its reference block
// "subagent-block-<toolUseId>" in the conversation of the event (in main, when
// that is unknown). Repeated, it only fills in what is missing.
//
// subagent:completed ends it: completed sets success and a complete reference
// block, everything else error and error. An empty output clears an earlier one.
// The block is looked for in main, then in all subagents. Completion before the
// spawn creates the subagent; its reference block is then created by the spawn,
// ended. The last completion wins.
//
// Subagents are found by toolUseId first, then by agentId; one that has only an
// agentId is kept under that.
//
// session:idle completes the pending blocks of its conversation, and drops its
// empty assistant_text and thinking blocks.
//
// # Invariants
//
// Each has a property test with its number (property_test.go), over hostile event
// sequences.
//
//	I1  Total: no sequence of events panics, or makes a state that can't be encoded.
//	I2  Pure: equal states and events make equal states.
//	I3  A fold cut in two anywhere is the whole fold, also through JSON.
//	I4  An upsert, spawn or completion repeated at once has no effect.
//	I5  A state survives JSON.
//	I6  Builder, Reduce and a naive reducer agree after every event.
//	I7  A returned state never changes.
//	I8  An event that changes nothing returns the same state, see [State.Same].
//	I9  Ids are unique: blocks within a conversation, subagents within a state.
//	I10 An event changes no conversation but its own, except for reference blocks.
package reducer
