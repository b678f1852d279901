package adapters

// Capability describes one of an agent's abilities for people. It is the one
// description of what a field of Capabilities means to a user of an agent.
type Capability struct {
	// Key is the field's name in JSON.
	Key string `json:"key"`
	// Name is its name for people: partial text.
	Name string `json:"name"`
	// Meaning is a sentence for a person who chooses an agent.
	Meaning string `json:"meaning"`

	field func(*Capabilities) *bool
}

// In reports whether an agent has it.
func (c Capability) In(can Capabilities) bool { return *c.field(&can) }

// AllCapabilities returns one for every field of Capabilities, in the order in
// which they are shown.
func AllCapabilities() []Capability {
	return []Capability{
		{"chosenId", "chosen id", "The agent's own session has an id that is made of the session's; without it the agent makes one up, which is kept beside ours.",
			func(c *Capabilities) *bool { return &c.ChosenID }},
		{"partialText", "partial text", "Text comes while it is written, not only when it is whole.",
			func(c *Capabilities) *bool { return &c.PartialText }},
		{"thinking", "thinking", "What the model thinks before it answers is shown.",
			func(c *Capabilities) *bool { return &c.Thinking }},
		{"subagents", "subagents", "The agent can start agents of its own inside itself.",
			func(c *Capabilities) *bool { return &c.Subagents }},
		{"liveSubagents", "live subagents", "A subagent's blocks are streamed while it runs; without it, they appear once the agent's own files are read.",
			func(c *Capabilities) *bool { return &c.LiveSubagents }},
		{"steer", "steer", "A message can be folded into the turn that runs; without it the message waits for the next turn.",
			func(c *Capabilities) *bool { return &c.Steer }},
		{"approve", "approve", "The agent can ask before it runs a tool, and waits for the answer.",
			func(c *Capabilities) *bool { return &c.Approve }},
		{"questions", "questions", "The agent can ask its user something and wait for the answer.",
			func(c *Capabilities) *bool { return &c.Questions }},
		{"setModel", "set model", "The model can be changed while the agent's process continues.",
			func(c *Capabilities) *bool { return &c.SetModel }},
		{"interrupt", "interrupt", "A turn can be stopped while the agent's process continues; without it the process is ended and the session resumed.",
			func(c *Capabilities) *bool { return &c.Interrupt }},
		{"images", "images", "A message can have images.",
			func(c *Capabilities) *bool { return &c.Images }},
		{"cost", "cost", "The agent reports what a turn has cost.",
			func(c *Capabilities) *bool { return &c.Cost }},
		{"ticks", "ticks", "Model calls are counted, so that they can be limited.",
			func(c *Capabilities) *bool { return &c.Ticks }},
	}
}

// Split returns the names of what an agent can and of what it can't, each in the
// order of AllCapabilities.
func (c Capabilities) Split() (can, cannot []string) {
	for _, ability := range AllCapabilities() {
		if ability.In(c) {
			can = append(can, ability.Name)
		} else {
			cannot = append(cannot, ability.Name)
		}
	}
	return can, cannot
}

// Variable is an environment variable that an agent's program reads.
type Variable struct {
	Name string `json:"name"`
	// About describes its purpose in a few words.
	About string `json:"about"`
}
