package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// watch reports the end of a server that was not asked to end. The returned
// channel receives the same end, for the stop that waits for it.
func (s *stack) watch(serving context.Context, name string, ended <-chan error) chan error {
	relayed := make(chan error, 1)
	go func() {
		err := <-ended
		if serving.Err() == nil {
			s.broke <- fmt.Errorf("%s ended by itself: %w", name, orUnknown(err))
		}
		relayed <- err
	}()
	return relayed
}

func orUnknown(err error) error {
	if err == nil {
		return errors.New("without an error")
	}
	return err
}

// waitForHTTP returns when url answers with any status, or with the error of the
// server if that ends first.
func waitForHTTP(ctx context.Context, url string, ended <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	retry := time.NewTicker(5 * time.Millisecond)
	defer retry.Stop()
	for {
		if answers(ctx, url) {
			return nil
		}
		select {
		case err := <-ended:
			return orUnknown(err)
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w", url, ctx.Err())
		case <-retry.C:
		}
	}
}

func answers(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil
}

func joinPort(host string, port int) string {
	return net.JoinHostPort(host, strconv.Itoa(port))
}
