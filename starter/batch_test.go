package starter

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The items of a batch on standard input are those of the program's, and reading them ends with the
// command: a terminal, or a program that writes nothing, holds it up no longer.
func TestItemsOfStandardInput(t *testing.T) {
	t.Parallel()
	c := &cli{stdin: strings.NewReader("{}\n{}\n")}
	in, err := c.items(t.Context(), "-")
	require.NoError(t, err)
	text, err := io.ReadAll(in)
	require.NoError(t, err)
	require.Equal(t, "{}\n{}\n", string(text))
	require.NoError(t, in.Close())

	silent, writer := io.Pipe()
	defer writer.Close()
	ctx, end := context.WithCancel(t.Context())
	in, err = (&cli{stdin: silent}).items(ctx, "-")
	require.NoError(t, err)
	end()
	_, err = io.ReadAll(in)
	require.ErrorIs(t, err, context.Canceled)
}
