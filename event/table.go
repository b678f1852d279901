package event

import (
	"encoding/json"
	"errors"
	"reflect"
)

// Type is the wire name of an event type, such as "block:upsert".
type Type string

// Payload is the body of an event; its struct determines the event's type. The
// set is closed: the structs in table, and [Unknown] for the rest. Payloads are
// values: a pointer to one has no type and is not encoded.
type Payload interface{ isPayload() }

// body marks a struct as a payload.
type body struct{}

func (body) isPayload() {}

// table lists the event types, by the part of a session that they are about.
// An event type is its struct, in payload.go, and its row here.
var table = []*row{
	rowOf[BlockUpsert]("block:upsert"),
	rowOf[BlockDelta]("block:delta"),
	rowOf[BlockPlaced]("block:placed"),
	rowOf[MetadataUpdate]("metadata:update"),
	rowOf[SubagentSpawned]("subagent:spawned"),
	rowOf[SubagentCompleted]("subagent:completed"),
	rowOf[SessionInitialized]("session:initialized"),
	rowOf[SessionIdle]("session:idle"),
	rowOf[SessionClosed]("session:closed"),
	rowOf[EECreating]("ee:creating"),
	rowOf[EEReady]("ee:ready"),
	rowOf[EETerminated]("ee:terminated"),
	rowOf[EEError]("ee:error"),
	rowOf[EEHealthCheck]("ee:health_check"),
	rowOf[QueryStarted]("query:started"),
	rowOf[QueryCompleted]("query:completed"),
	rowOf[QueryFailed]("query:failed"),
	rowOf[QueryInterrupted]("query:interrupted"),
	rowOf[MessageFolded]("message:folded"),
	rowOf[MessageOwnTurn]("message:own-turn"),
	rowOf[FileCreated]("file:created"),
	rowOf[FileModified]("file:modified"),
	rowOf[FileDeleted]("file:deleted"),
	rowOf[TranscriptChanged]("transcript:changed"),
	rowOf[TranscriptWritten]("transcript:written"),
	rowOf[PermissionRequested]("permission:requested"),
	rowOf[PermissionResolved]("permission:resolved"),
	rowOf[OptionsUpdate]("options:update"),
	rowOf[Status]("status"),
	rowOf[Log]("log"),
	rowOf[Error]("error"),
	rowOf[Native]("native"),
}

type row struct {
	name   Type
	goType reflect.Type
	decode func(json.RawMessage) (Payload, error)
	// head is the wire form up to the payload.
	head []byte
}

func rowOf[P Payload](name Type) *row {
	return &row{name: name, goType: reflect.TypeFor[P](), decode: decodeAs[P], head: appendHead(nil, name)}
}

func decodeAs[P Payload](raw json.RawMessage) (Payload, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, errors.New(`field "payload" is missing`)
	}
	var p P
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, err
	}
	return p, nil
}

// The table by wire name and by struct.
var (
	rowByName   = make(map[Type]*row, len(table))
	rowByStruct = make(map[reflect.Type]*row, len(table))
)

func init() {
	for _, r := range table {
		rowByName[r.name], rowByStruct[r.goType] = r, r
	}
}

// TypeOf returns the wire name of events with payload p: for [Unknown] the one
// that the event was read with, and "" for what is not a payload.
func TypeOf(p Payload) Type {
	if r := rowByStruct[reflect.TypeOf(p)]; r != nil {
		return r.name
	}
	u, _ := p.(Unknown)
	return u.Name
}

func decodePayload(t Type, raw json.RawMessage) (Payload, error) {
	if r, known := rowByName[t]; known {
		return r.decode(raw)
	}
	return Unknown{Name: t, Raw: raw}, nil
}
