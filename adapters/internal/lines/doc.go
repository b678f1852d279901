// Package lines reads transcripts line by line, with errors that name the agent,
// the file and the line.
package lines
