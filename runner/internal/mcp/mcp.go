// Package mcp offers Sojourn's tools to an agent by the Model Context Protocol, on stdin
// and stdout. It passes each call to the supervisor's socket for tools and knows nothing of
// what the tools do.
package mcp

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sojourn-run/sojourn/agenttools"
	"github.com/sojourn-run/sojourn/runner"
	"github.com/sojourn-run/sojourn/runner/internal/wire"
)

// patience is how long a call waits for its result: while no worker is attached, none
// comes.
const patience = (agenttools.MaxWaitSeconds + 10) * time.Second

// Offer is what is offered.
type Offer struct {
	// Agents: the tools by which an agent uses child sessions.
	Agents bool
	// Programs are the tools of programs.
	Programs []agenttools.Program
}

// Serve serves until in ends.
func Serve(ctx context.Context, socket string, o Offer, in io.ReadCloser, out io.WriteCloser) error {
	s := mcp.NewServer(&mcp.Implementation{Name: agenttools.Server, Version: fmt.Sprint(runner.Protocol)}, nil)
	if o.Agents {
		addAgents(s, socket)
	}
	for _, p := range o.Programs {
		addProgram(s, socket, p)
	}
	if len(o.Programs) > 0 {
		add[agenttools.WaitProgram](s, socket, agenttools.WaitTool, "Wait for the result of a call that was still running when it returned.")
	}
	return s.Run(ctx, &mcp.IOTransport{Reader: in, Writer: out})
}

func addAgents(s *mcp.Server, socket string) {
	add[agenttools.Spawn](s, socket, agenttools.SpawnAgent,
		"Give a task to another agent, which works in a place of its own or in yours, and wait for its answer for a while. Several can work at the same time. An agent ends when it has answered.")
	add[agenttools.List](s, socket, agenttools.ListAgents, "List the agents that you have spawned and that are still at work.")
	add[agenttools.Wait](s, socket, agenttools.WaitAgent, "Wait until agents that you have spawned have answered, and get their answers. Call it again for those that are still running.")
	add[agenttools.Message](s, socket, agenttools.MessageAgent, "Send a message to an agent that you have spawned and that is still at work, and wait for its answer for a while.")
	add[agenttools.Stop](s, socket, agenttools.StopAgent, "End an agent that you have spawned.")
}

// addProgram adds a program's tool, which checks its arguments itself. One that the protocol's library
// does not take is left out, and the others are there.
func addProgram(s *mcp.Server, socket string, p agenttools.Program) {
	defer func() {
		if why := recover(); why != nil {
			fmt.Fprintf(os.Stderr, "sojourn-runner: tool %s is not offered: %v\n", p.Name, why)
		}
	}()
	schema := p.Input
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	s.AddTool(&mcp.Tool{Name: p.Name, Description: p.Description, InputSchema: schema}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		args := req.Params.Arguments
		if len(args) == 0 {
			args = json.RawMessage(`{}`)
		}
		id := rand.Text()
		res, err := call(ctx, socket, runner.ToolCall{ID: id, Name: p.Name}, args)
		switch {
		case errors.Is(err, errLate):
			pending, _ := json.Marshal(agenttools.StillRunning(id)) // strings always encode
			res = runner.ToolResult{Text: string(pending)}
		case err != nil:
			res = runner.ToolResult{Failed: true, Text: err.Error()}
		}
		return resultOf(res), nil
	})
}

func resultOf(res runner.ToolResult) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: res.Failed, Content: []mcp.Content{&mcp.TextContent{Text: res.Text}}}
}

// add adds a tool with arguments of type A.
func add[A any](s *mcp.Server, socket, name, description string) {
	mcp.AddTool(s, &mcp.Tool{Name: name, Description: description}, func(ctx context.Context, _ *mcp.CallToolRequest, args A) (*mcp.CallToolResult, any, error) {
		res, err := call(ctx, socket, runner.ToolCall{Name: name}, args)
		if err != nil {
			return nil, nil, err
		}
		return resultOf(res), nil, nil
	})
}

// errLate means that a call had no result in time.
var errLate = errors.New("it may have had its effect")

// call passes one call on, over a connection of its own, whose end cancels it.
func call(ctx context.Context, socket string, c runner.ToolCall, args any) (res runner.ToolResult, err error) {
	name := c.Name
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return res, fmt.Errorf("%s: the runner takes no calls: %w", name, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if c.Arguments, err = json.Marshal(args); err != nil {
		return res, fmt.Errorf("%s: %w", name, err)
	}
	line, err := wire.Line(c)
	if err == nil {
		_, err = conn.Write(line)
	}
	if err == nil {
		line, err = wire.ReadLine(bufio.NewReader(conn))
	}
	switch {
	case ctx.Err() != nil:
		return res, fmt.Errorf("%s: no result came within %s; %w: see %s", name, patience, errLate, agenttools.ListAgents)
	case err != nil:
		return res, fmt.Errorf("%s: the runner has no result: %w", name, err)
	}
	return res, json.Unmarshal(line, &res)
}
