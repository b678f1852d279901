// Package profilefiles collects the files that a profile becomes, for agents that
// keep their configuration in a folder of the home. What the files are called and
// hold is each agent's own; where they lie, who may read them and in which order
// they come is the same for all.
package profilefiles
