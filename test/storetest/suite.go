// Package storetest is the conformance suite of [store.Store].
package storetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/sojourn-run/sojourn/archive/store"
)

// Run tests a store. open returns the same one, which does not exist yet, each time that it is
// called, as another process would open it.
func Run(t *testing.T, open func() store.Store) {
	s := open()
	t.Run("not set up", func(t *testing.T) { notSetUp(t, s) })
	t.Run("setup", func(t *testing.T) {
		there, err := s.Exists(t.Context())
		require.NoError(t, err)
		require.False(t, there)
		for range 2 {
			require.NoError(t, s.Setup(t.Context()))
		}
		there, err = open().Exists(t.Context())
		require.NoError(t, err)
		require.True(t, there)
		require.NotEmpty(t, s.Name())
	})
	t.Run("objects", func(t *testing.T) { objects(t, s) })
	t.Run("ranges", func(t *testing.T) { ranges(t, s) })
	t.Run("swap", func(t *testing.T) { swap(t, s) })
	t.Run("list", func(t *testing.T) { list(t, s) })
	t.Run("pages", func(t *testing.T) { pages(t, s) })
	t.Run("many writers", func(t *testing.T) { manyWriters(t, open) })
	t.Run("writers and deleters", func(t *testing.T) { deleters(t, open) })
}

// notSetUp: what is not there has no objects, and is not empty either.
func notSetUp(t *testing.T, s store.Store) {
	_, _, err := s.Get(t.Context(), "o/a")
	require.Error(t, err)
	require.NotErrorIs(t, err, store.ErrNotFound)
	_, err = s.GetRange(t.Context(), "o/a", 0, 1)
	require.Error(t, err)
	require.NotErrorIs(t, err, store.ErrNotFound)
	require.Error(t, s.Put(t.Context(), "o/a", nil))
	_, err = s.Swap(t.Context(), "o/a", "", nil)
	require.Error(t, err)
	require.NotErrorIs(t, err, store.ErrChanged)
	for _, folders := range []bool{false, true} {
		failed := false
		for _, err := range s.List(t.Context(), "o/", "", folders) {
			failed = failed || err != nil
		}
		require.True(t, failed, "a listing of nothing would say that it is empty")
	}
}

func objects(t *testing.T, s store.Store) {
	ctx := t.Context()
	gone, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, s.Put(gone, "o/late", nil), context.Canceled)
	_, _, err := s.Get(gone, "o/late")
	require.ErrorIs(t, err, context.Canceled)
	for _, missing := range []string{"o/none", "none", "o/a/b/c"} {
		_, _, err := s.Get(ctx, missing)
		require.ErrorIs(t, err, store.ErrNotFound, missing)
		require.NoError(t, s.Delete(ctx, missing), missing)
	}
	big := []byte(strings.Repeat("0123456789", 1<<20))
	for key, data := range map[string][]byte{"o/a": []byte("one"), "o/=2Fb.c-d_e": {0, 255, 10}, "o/empty": {}, "o/big": big} {
		require.NoError(t, s.Put(ctx, key, data), key)
		got, tag, err := s.Get(ctx, key)
		require.NoError(t, err, key)
		require.NotEmpty(t, tag, key)
		require.Equal(t, string(data), string(got), key)
	}
	require.NoError(t, s.Put(ctx, "o/a", []byte("another")))
	got, _, err := s.Get(ctx, "o/a")
	require.NoError(t, err)
	require.Equal(t, "another", string(got))
	_, _, err = s.Get(ctx, "o")
	require.ErrorIs(t, err, store.ErrNotFound, "what only begins keys is no object")
	require.NoError(t, s.Delete(ctx, "o"), "so there is none to delete")
	_, _, err = s.Get(ctx, "o/a")
	require.NoError(t, err)
	require.NoError(t, s.Delete(ctx, "o/a"))
	_, _, err = s.Get(ctx, "o/a")
	require.ErrorIs(t, err, store.ErrNotFound)
}

func ranges(t *testing.T, s store.Store) {
	ctx := t.Context()
	require.NoError(t, s.Put(ctx, "r/a", []byte("0123456789")))
	for want, at := range map[string]int64{"0123456789": 0, "345": 3, "9": 9} {
		got, err := s.GetRange(ctx, "r/a", at, int64(len(want)))
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	for _, at := range []int64{8, 10, 100} {
		_, err := s.GetRange(ctx, "r/a", at, 3)
		require.ErrorIs(t, err, store.ErrShort, at)
	}
	_, err := s.GetRange(ctx, "r/none", 0, 1)
	require.ErrorIs(t, err, store.ErrNotFound)
}

func swap(t *testing.T, s store.Store) {
	ctx := t.Context()
	_, err := s.Swap(ctx, "s/a", "no tag of it", []byte("x"))
	require.ErrorIs(t, err, store.ErrChanged, "there is none")
	first, err := s.Swap(ctx, "s/a", "", []byte("one"))
	require.NoError(t, err)
	_, err = s.Swap(ctx, "s/a", "", []byte("two"))
	require.ErrorIs(t, err, store.ErrChanged, "there is one")
	_, tag, err := s.Get(ctx, "s/a")
	require.NoError(t, err)
	require.Equal(t, first, tag)
	second, err := s.Swap(ctx, "s/a", first, []byte("two"))
	require.NoError(t, err)
	_, err = s.Swap(ctx, "s/a", first, []byte("three"))
	require.ErrorIs(t, err, store.ErrChanged, "it has another tag")
	require.NoError(t, s.Put(ctx, "s/a", []byte("put")))
	_, err = s.Swap(ctx, "s/a", second, []byte("three"))
	require.ErrorIs(t, err, store.ErrChanged, "it was put")
	require.NoError(t, s.Delete(ctx, "s/a"))
	_, err = s.Swap(ctx, "s/a", second, []byte("three"))
	require.ErrorIs(t, err, store.ErrChanged, "it was deleted")
}

// listed returns what is listed as NAME or NAME:SIZE.
func listed(t *testing.T, s store.Store, prefix, after string, folders bool) []string {
	t.Helper()
	out := []string{}
	for o, err := range s.List(t.Context(), prefix, after, folders) {
		require.NoError(t, err)
		if !folders {
			o.Name += ":" + strconv.FormatInt(o.Size, 10)
		}
		out = append(out, o.Name)
	}
	return out
}

func list(t *testing.T, s store.Store) {
	for i, key := range []string{"l/b/z", "l/b/a", "l/b-c/x", "l/b0", "l/a", "l/c/d/e/f", "l/c/d/e/g", "other/x"} {
		require.NoError(t, s.Put(t.Context(), key, make([]byte, i)))
	}
	all := []string{"a:4", "b-c/x:2", "b/a:1", "b/z:0", "b0:3", "c/d/e/f:5", "c/d/e/g:6"}
	require.Equal(t, all, listed(t, s, "l/", "", false), "in the order of their bytes")
	require.Equal(t, []string{"a:1", "z:0"}, listed(t, s, "l/b/", "", false))
	require.Equal(t, []string{"-c/x:2", "/a:1", "/z:0", "0:3"}, listed(t, s, "l/b", "", false), "a prefix may end anywhere")
	require.Equal(t, all[3:], listed(t, s, "l/", "b/a", false), "behind a name")
	require.Equal(t, all[2:], listed(t, s, "l/", "b-d", false), "which need not be there")
	require.Equal(t, all[6:], listed(t, s, "l/", "c/d/e/f", false))
	require.Empty(t, listed(t, s, "l/", "d", false))
	require.Empty(t, listed(t, s, "none/", "", false))
	require.Equal(t, []string{"b-c/", "b/", "c/"}, listed(t, s, "l/", "", true))
	require.Equal(t, []string{"d/"}, listed(t, s, "l/c/", "", true))
	require.Empty(t, listed(t, s, "l/b/", "", true))
	for _, key := range []string{"l/c/d/e/f", "l/c/d/e/g", "l/b-c/x"} {
		require.NoError(t, s.Delete(t.Context(), key))
	}
	require.Equal(t, []string{"b/"}, listed(t, s, "l/", "", true), "a folder without an object is none")
	for o, err := range s.List(t.Context(), "l/", "", false) {
		require.NoError(t, err)
		require.Equal(t, "a", o.Name)
		break // whoever has enough gets no more
	}
}

// pages has more objects than one answer of an S3 store.
func pages(t *testing.T, s store.Store) {
	const many = 1100
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(16)
	var want []string
	for i := range many {
		name := fmt.Sprintf("%05d", i)
		want = append(want, name+":1")
		g.Go(func() error { return s.Put(ctx, "p/"+name, []byte{1}) })
	}
	require.NoError(t, g.Wait())
	require.Equal(t, want, listed(t, s, "p/", "", false))
	require.Equal(t, want[11:], listed(t, s, "p/", "00010", false))
}

// manyWriters count with one object, by conditional writes, each with a store of its own.
func manyWriters(t *testing.T, open func() store.Store) {
	const writers, rounds = 8, 5
	g, ctx := errgroup.WithContext(t.Context())
	for range writers {
		s := open()
		g.Go(func() error {
			for done := 0; done < rounds; {
				data, tag, err := s.Get(ctx, "w/count")
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					return err
				}
				_, err = s.Swap(ctx, "w/count", tag, append(data, '+'))
				switch {
				case err == nil:
					done++
				case !errors.Is(err, store.ErrChanged):
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	data, _, err := open().Get(t.Context(), "w/count")
	require.NoError(t, err)
	require.Len(t, data, writers*rounds, "no write is lost")
}

// deleters write and delete objects of one folder at once.
func deleters(t *testing.T, open func() store.Store) {
	g, ctx := errgroup.WithContext(t.Context())
	for i := range 6 {
		s, key := open(), fmt.Sprintf("d/folder/%d", i)
		g.Go(func() error {
			for range 20 {
				if err := s.Put(ctx, key, []byte(key)); err != nil {
					return err
				}
				if got, _, err := s.Get(ctx, key); err != nil || string(got) != key {
					return fmt.Errorf("%s: %q, %w", key, got, err)
				}
				if err := s.Delete(ctx, key); err != nil {
					return err
				}
			}
			return s.Put(ctx, key, []byte(key))
		})
	}
	require.NoError(t, g.Wait())
	require.Len(t, listed(t, open(), "d/", "", false), 6)
}
