package codex

import (
	"errors"

	"github.com/go-json-experiment/json"

	"github.com/sojourn-run/sojourn/adapters/internal/nativejson"
)

var errNoPayload = errors.New(`field "payload" is missing`)

// decodeObject reads a line, which must be a JSON object.
func decodeObject(data []byte, into any) error {
	data, err := nativejson.Object(data)
	if err != nil {
		return err
	}
	return decode(data, into)
}

func decode(data []byte, into any) error {
	return nativejson.Explain(json.Unmarshal(data, into, nativejson.AsWritten))
}
