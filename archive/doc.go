// Package archive keeps sessions in S3, in any store that speaks its protocol
// with conditional puts, or in a folder (package store): native transcripts byte for
// byte, the blocks that Sojourn itself added, session records and profiles; and the
// objects of other packages ([Objects]), such as a workspace's.
//
//	a, err := archive.Open(ctx, archive.Options{Bucket: "sojourn"})
//	err = a.Setup(ctx)                           // makes the bucket
//	epoch, err := a.TakeEpoch(ctx, id)           // fences all earlier writers
//	info, err := a.AppendTranscript(ctx, id, epoch, t, start, bytes)
//	rc, err := a.ReadTranscript(ctx, id, "main") // checked while it is read
//
// The archive does not know blocks: a conversation is restored by an adapter's
// parser from the stored bytes ([Archive.Events]).
//
// # Layout
//
//	<prefix>/<namespace>/sessions/<id>/head.json      the epoch
//	…/session.json                                    list data, no status
//	…/transcripts/<transcript>/head.json              what the transcript is made of
//	…/transcripts/<transcript>/<epoch>-<start>-<end>-<sha256>
//	…/transcripts/<transcript>/pages/…                lists of full segments
//	…/<name>/…                                        objects of other packages
//	<prefix>/<namespace>/by-closed/<inverted time>-<id>
//	<prefix>/<namespace>/profiles/<id>/…
//
// # Rules
//
//  1. A transcript is defined by its head. An object that no head names does
//     not exist for readers, so a writer may die between any two requests.
//  2. A head changes only by conditional put. A segment's name holds the hash
//     of its bytes and is never put with other bytes.
//  3. An append costs three requests: the session's epoch, the segment, the
//     transcript's head. Segments are merged with their equals while they are
//     small, so N appends leave O(log N) of them, and a head never outgrows
//     some kilobytes.
//  4. A writer whose epoch is not the session's is refused with [ErrFenced].
//     A writer that was past that check when a new epoch was taken can still
//     finish its put, so a reader that continues from the archive seals what it reads
//     ([Archive.RestoreFiles]); after that no earlier writer can commit.
//  5. Every append may be repeated, by any process: bytes that are stored are
//     compared, not written again. No state outside the store is needed.
//
// An [Archive] is safe for concurrent use. It starts no goroutine that outlives a
// call, except for its client's idle connections, and needs no Close.
package archive
