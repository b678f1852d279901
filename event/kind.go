package event

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
)

// EventType is [TypeBlockUpsert].
func (BlockUpsert) EventType() Type { return TypeBlockUpsert }

// EventType is [TypeBlockDelta].
func (BlockDelta) EventType() Type { return TypeBlockDelta }

// EventType is [TypeMetadataUpdate].
func (MetadataUpdate) EventType() Type { return TypeMetadataUpdate }

// EventType is [TypeSubagentSpawned].
func (SubagentSpawned) EventType() Type { return TypeSubagentSpawned }

// EventType is [TypeSubagentCompleted].
func (SubagentCompleted) EventType() Type { return TypeSubagentCompleted }

// EventType is [TypeSessionInitialized].
func (SessionInitialized) EventType() Type { return TypeSessionInitialized }

// EventType is [TypeSessionIdle].
func (SessionIdle) EventType() Type { return TypeSessionIdle }

// EventType is [TypeSessionClosed].
func (SessionClosed) EventType() Type { return TypeSessionClosed }

// EventType is [TypeEECreating].
func (EECreating) EventType() Type { return TypeEECreating }

// EventType is [TypeEEReady].
func (EEReady) EventType() Type { return TypeEEReady }

// EventType is [TypeEETerminated].
func (EETerminated) EventType() Type { return TypeEETerminated }

// EventType is [TypeEEError].
func (EEError) EventType() Type { return TypeEEError }

// EventType is [TypeEEHealthCheck].
func (EEHealthCheck) EventType() Type { return TypeEEHealthCheck }

// EventType is [TypeQueryStarted].
func (QueryStarted) EventType() Type { return TypeQueryStarted }

// EventType is [TypeQueryCompleted].
func (QueryCompleted) EventType() Type { return TypeQueryCompleted }

// EventType is [TypeQueryFailed].
func (QueryFailed) EventType() Type { return TypeQueryFailed }

// EventType is [TypeQueryInterrupted].
func (QueryInterrupted) EventType() Type { return TypeQueryInterrupted }

// EventType is [TypeMessageFolded].
func (MessageFolded) EventType() Type { return TypeMessageFolded }

// EventType is [TypeMessageOwnTurn].
func (MessageOwnTurn) EventType() Type { return TypeMessageOwnTurn }

// EventType is [TypeFileCreated].
func (FileCreated) EventType() Type { return TypeFileCreated }

// EventType is [TypeFileModified].
func (FileModified) EventType() Type { return TypeFileModified }

// EventType is [TypeFileDeleted].
func (FileDeleted) EventType() Type { return TypeFileDeleted }

// EventType is [TypeTranscriptChanged].
func (TranscriptChanged) EventType() Type { return TypeTranscriptChanged }

// EventType is [TypeTranscriptWritten].
func (TranscriptWritten) EventType() Type { return TypeTranscriptWritten }

// EventType is [TypePermissionRequested].
func (PermissionRequested) EventType() Type { return TypePermissionRequested }

// EventType is [TypePermissionResolved].
func (PermissionResolved) EventType() Type { return TypePermissionResolved }

// EventType is [TypeOptionsUpdate].
func (OptionsUpdate) EventType() Type { return TypeOptionsUpdate }

// EventType is [TypeStatus].
func (Status) EventType() Type { return TypeStatus }

// EventType is [TypeLog].
func (Log) EventType() Type { return TypeLog }

// EventType is [TypeError].
func (Error) EventType() Type { return TypeError }

// EventType is [TypeNative].
func (Native) EventType() Type { return TypeNative }

// EventType is the name that came with the event.
func (u Unknown) EventType() Type { return u.Name }

func (BlockUpsert) payload()         {}
func (BlockDelta) payload()          {}
func (MetadataUpdate) payload()      {}
func (SubagentSpawned) payload()     {}
func (SubagentCompleted) payload()   {}
func (SessionInitialized) payload()  {}
func (SessionIdle) payload()         {}
func (SessionClosed) payload()       {}
func (EECreating) payload()          {}
func (EEReady) payload()             {}
func (EETerminated) payload()        {}
func (EEError) payload()             {}
func (EEHealthCheck) payload()       {}
func (QueryStarted) payload()        {}
func (QueryCompleted) payload()      {}
func (QueryFailed) payload()         {}
func (QueryInterrupted) payload()    {}
func (MessageFolded) payload()       {}
func (MessageOwnTurn) payload()      {}
func (FileCreated) payload()         {}
func (FileModified) payload()        {}
func (FileDeleted) payload()         {}
func (TranscriptChanged) payload()   {}
func (TranscriptWritten) payload()   {}
func (PermissionRequested) payload() {}
func (PermissionResolved) payload()  {}
func (OptionsUpdate) payload()       {}
func (Status) payload()              {}
func (Log) payload()                 {}
func (Error) payload()               {}
func (Native) payload()              {}
func (Unknown) payload()             {}

// decoders is the one table from a wire name to its struct.
var decoders = map[Type]func(json.RawMessage) (Payload, error){
	TypeBlockUpsert:         decodeAs[BlockUpsert],
	TypeBlockDelta:          decodeAs[BlockDelta],
	TypeMetadataUpdate:      decodeAs[MetadataUpdate],
	TypeSubagentSpawned:     decodeAs[SubagentSpawned],
	TypeSubagentCompleted:   decodeAs[SubagentCompleted],
	TypeSessionInitialized:  decodeAs[SessionInitialized],
	TypeSessionIdle:         decodeAs[SessionIdle],
	TypeSessionClosed:       decodeAs[SessionClosed],
	TypeEECreating:          decodeAs[EECreating],
	TypeEEReady:             decodeAs[EEReady],
	TypeEETerminated:        decodeAs[EETerminated],
	TypeEEError:             decodeAs[EEError],
	TypeEEHealthCheck:       decodeAs[EEHealthCheck],
	TypeQueryStarted:        decodeAs[QueryStarted],
	TypeQueryCompleted:      decodeAs[QueryCompleted],
	TypeQueryFailed:         decodeAs[QueryFailed],
	TypeQueryInterrupted:    decodeAs[QueryInterrupted],
	TypeMessageFolded:       decodeAs[MessageFolded],
	TypeMessageOwnTurn:      decodeAs[MessageOwnTurn],
	TypeFileCreated:         decodeAs[FileCreated],
	TypeFileModified:        decodeAs[FileModified],
	TypeFileDeleted:         decodeAs[FileDeleted],
	TypeTranscriptChanged:   decodeAs[TranscriptChanged],
	TypeTranscriptWritten:   decodeAs[TranscriptWritten],
	TypePermissionRequested: decodeAs[PermissionRequested],
	TypePermissionResolved:  decodeAs[PermissionResolved],
	TypeOptionsUpdate:       decodeAs[OptionsUpdate],
	TypeStatus:              decodeAs[Status],
	TypeLog:                 decodeAs[Log],
	TypeError:               decodeAs[Error],
	TypeNative:              decodeAs[Native],
}

func decodeAs[P Payload](raw json.RawMessage) (Payload, error) {
	var p P
	if len(raw) == 0 || string(raw) == "null" {
		return nil, errNoPayload
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, err
	}
	return p, nil
}

var errNoPayload = errors.New(`field "payload" is missing`)

func decodePayload(t Type, raw json.RawMessage) (Payload, error) {
	decode, known := decoders[t]
	if !known {
		return Unknown{Name: t, Raw: raw}, nil
	}
	return decode(raw)
}

// Known says whether this version has a struct for events of type t.
func (t Type) Known() bool {
	_, known := decoders[t]
	return known
}

// Types lists the known event types in alphabetical order.
func Types() []Type { return slices.Sorted(maps.Keys(decoders)) }
