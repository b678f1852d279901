// Package adapters defines what Sojourn must know of an agent to run it: where
// its files are, how it is started, what is written to it and how its output
// becomes events. There is one package below this one for each agent; nothing
// else in Sojourn depends on which agent it runs.
//
// A turn goes through an [Adapter] like this:
//
//	found, _ := a.Prepare(home, launch)      // which native session is there
//	cmd, _ := a.Command(launch)              // how the runner starts it
//	tr, _ := a.Translator(launch, state)     // kept from the last turn, or nil
//	write(tr.Encode("prompt-1", adapters.Prompt{…}))
//	for rec := range records {
//		events := tr.Step(rec)           // pure: same records, same events
//		write(tr.Due())                  // what its protocol requires now
//	}
//	state, _ = tr.State()
//
// and a stored conversation like this, without any sandbox:
//
//	for ev, err := range a.Parse(sources) { … }
//
// Folding the first by package reducer makes the same conversation as folding the
// second; the adapters' parity tests check that with every recording.
package adapters
