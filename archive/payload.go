package archive

import (
	"context"
	"fmt"
	"path"
	"strings"
)

// Payloads stores Temporal payloads that are too large for a workflow's history,
// each under its session and the SHA-256 of its bytes, until the session is
// deleted. It is the store behind the S3 driver of Temporal's SDK and accepts the
// driver's keys. Buckets are ignored, since claims contain them and anyone can
// write a claim. Its methods may be called concurrently.
type Payloads struct{ a *Archive }

// Payloads returns the archive's payloads.
func (a *Archive) Payloads() *Payloads { return &Payloads{a} }

// Bucket returns the name of the bucket or folder that has everything.
func (p *Payloads) Bucket() string { return p.a.store.Name() }

// PutObject stores a payload.
func (p *Payloads) PutObject(ctx context.Context, _, key string, data []byte) error {
	object, err := p.a.payloadKey(key)
	if err != nil {
		return fmt.Errorf("archive: store a payload: %w", err)
	}
	if err := p.a.put(ctx, object, data); err != nil {
		return fmt.Errorf("archive: store a payload: %w", err)
	}
	return nil
}

// ObjectExists returns false without a request: a payload is rarely stored twice,
// and has the same bytes then.
func (p *Payloads) ObjectExists(context.Context, string, string) (bool, error) { return false, nil }

// GetObject returns a payload. The error is [ErrNotFound] or [ErrInvalid] for a
// key that has none; any other error may be transient.
func (p *Payloads) GetObject(ctx context.Context, _, key string) ([]byte, error) {
	object, err := p.a.payloadKey(key)
	if err != nil {
		return nil, fmt.Errorf("archive: read a payload: %w", err)
	}
	data, _, err := p.a.get(ctx, object)
	if err != nil {
		return nil, fmt.Errorf("archive: read a payload: %w", err)
	}
	return data, nil
}

// Describe adds nothing to the driver's errors: the archive's name bucket and
// key.
func (p *Payloads) Describe() map[string]string { return nil }

// payloadKey maps a key of the driver,
// v0/ns/NAMESPACE/wt/TYPE/wi/SESSION/ri/RUN/d/sha256/DIGEST, to the object's.
func (a *Archive) payloadKey(key string) (string, error) {
	fields := strings.Split(key, "/")
	const session, digest = 6, 11
	if len(fields) != digest+1 || fields[0] != "v0" || fields[session-1] != "wi" || fields[digest-1] != "sha256" {
		return "", fmt.Errorf("%w payload key %q: want that of a session's workflow", ErrInvalid, key)
	}
	if err := checkSession(fields[session]); err != nil {
		return "", err
	}
	if len(fields[digest]) != 64 || strings.Trim(fields[digest], "0123456789abcdef") != "" {
		return "", fmt.Errorf("%w payload key %q: want a SHA-256 at its end", ErrInvalid, key)
	}
	return path.Join(a.sessionKey(fields[session]), "payloads", fields[digest]), nil
}
