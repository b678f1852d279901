package modelsim

import (
	"encoding/json"
	"slices"
	"strings"
)

// decidedIntro begins the message that Sojourn sends an agent whose turn was parked: what a person
// has decided of the calls that it had asked for.
const decidedIntro = "While you waited for permission"

// steps are what the last prompt asks for. One that reports a decision repeats the
// last call of the prompt before, as it was decided, or says that it was denied.
func (c Conversation) steps() ([]step, error) {
	prompt := c.last().Prompt
	if !strings.HasPrefix(prompt, decidedIntro) {
		return parseScript(prompt)
	}
	if _, why, denied := strings.Cut(prompt, "\n- denied: "); denied {
		return []step{sayStep{"It was denied: " + head(why, 400)}}, nil
	}
	for _, before := range slices.Backward(c.Turns[:len(c.Turns)-1]) {
		if strings.HasPrefix(before.Prompt, decidedIntro) {
			continue
		}
		steps, err := parseScript(before.Prompt)
		if err != nil {
			return nil, err
		}
		for _, s := range slices.Backward(steps) {
			if call, ok := s.(callStep); ok {
				return []step{changed(call, prompt)}, nil
			}
		}
	}
	return []step{sayStep{"There was no call to repeat."}}, nil
}

// changed returns a call with the command that a prompt sets, if it sets one.
func changed(call callStep, prompt string) callStep {
	_, given, ok := strings.Cut(prompt, "exactly these arguments: ")
	var args struct {
		Command string `json:"command"`
	}
	if ok && json.NewDecoder(strings.NewReader(given)).Decode(&args) == nil && args.Command != "" {
		call.call.Command = args.Command
	}
	return call
}
