// Package profilefiles collects the files that a profile becomes, for agents that
// keep their configuration in a folder of the home. Their names and contents
// differ between agents; their place, their mode and their order are the same for
// all.
package profilefiles
