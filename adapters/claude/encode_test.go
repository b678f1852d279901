package claude

import "github.com/sojourn-run/sojourn/adapters"

// encode returns the line for an input at the beginning of a session.
func encode(l adapters.Launch, id string, in adapters.Input) ([]byte, error) {
	tr, err := newTranslator(l, nil)
	if err != nil {
		return nil, err
	}
	messages, err := tr.Encode(id, in)
	if err != nil {
		return nil, err
	}
	return messages[0].Data, nil
}
