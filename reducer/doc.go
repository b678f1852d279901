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
// [State] is the conversation: blocks and subagents, folded by [Reduce], [Builder] or
// [Fold]. An event that is not about it leaves it as it is, so it may be fed
// everything. Package overview folds what is beside it, and package loss says what becomes
// of a conversation whose agent is gone.
//
// # Rules of the conversation
//
// block:upsert merges the fields given into the block with that id, or creates
// it. A field is given when it is neither nil nor "" (a list or map: when it
// is not empty); metadata merges key by key. A new block gets the defaults of
// its type (content "", input {}, output null, isError false, message "",
// status and execution pending) and, when it has no timestamp, the event's. A
// block created by an event with source server bears that source, and keeps
// it. A block for an unknown conversation creates that subagent, running. An
// upsert without id, or of a new block without type, does nothing.
//
// A block whose metadata has "lost": true was said by an agent that took it back,
// or died before it wrote it down. An upsert with a type, the status pending or
// complete, and without that mark says it anew: the lost block is dropped and the
// new one comes last. An empty text that is lost and the server's was never seen, and
// an empty message of a user is kept under another id: an upsert that says so drops
// the block.
//
// block:delta appends to the content. An empty delta, an unknown block or
// conversation, or a block whose type has no text: no change.
//
// subagent:spawned creates the subagent, running, and its reference block
// "subagent-block-<toolUseId>" in the conversation of the event (in main, when
// that is unknown). Repeated, it only fills in what is missing.
//
// subagent:completed ends it: completed gives success and a complete reference
// block, everything else error and error. An empty output is none, and takes back
// one that was said. The block is looked for in main, then in all subagents. Completion before the spawn creates the subagent; its
// reference block then comes with the spawn, ended. The last completion wins.
//
// Subagents are found by toolUseId first, then by agentId; one that is named
// by agentId alone is kept under that.
//
// session:idle completes what is pending in its conversation, and drops there
// the assistant_text and thinking blocks that stayed empty.
//
// # Invariants
//
// Each has a property test by its number (property_test.go), over event
// sequences as nasty as the generator can make them.
//
//	I1  Total: no sequence of events panics, or gives a state that can't be encoded.
//	I2  Pure: equal states and events give equal states.
//	I3  A fold cut in two anywhere is the whole fold, also through JSON.
//	I4  An upsert, spawn or completion repeated at once gives the same state.
//	I5  A state survives JSON.
//	I6  Builder, Reduce and a naive reducer agree after every event.
//	I7  A state handed out never changes.
//	I8  An event that changes nothing gives the same state, see [State.Same].
//	I9  Ids are unique: blocks within a conversation, subagents within a state.
//	I10 An event changes no conversation but its own, except for reference blocks.
package reducer
