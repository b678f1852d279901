// Package adapters says what Sojourn must know of an agent to run it: where
// its files lie, how it is started, what is written to it and how what it says
// becomes events. One package below this one knows each agent; nothing else in
// Sojourn asks which agent it has before it.
//
// A turn goes through an [Adapter] like this:
//
//	found, _ := a.Prepare(home, launch)      // which native session lies there
//	cmd, _ := a.Command(launch)              // how the runner starts it
//	tr, _ := a.Translator(launch, state)     // kept from the last turn, or nil
//	write(tr.Encode("prompt-1", adapters.Prompt{…}))
//	for rec := range records {
//		events := tr.Step(rec)           // pure: same records, same events
//		write(tr.Due())                  // what its protocol wants said now
//	}
//	state, _ = tr.State()
//
// and a stored conversation like this, without any sandbox:
//
//	for ev, err := range a.Parse(sources) { … }
//
// Folding the first by package reducer makes the same conversation as folding
// the second; the adapters' parity tests hold every recording against that.
package adapters
