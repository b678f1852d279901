// Package schedules has jobs, and messages to a session, begin at times: on Temporal
// Schedules, with Temporal's own rules for overlap and for what was missed while no server or
// worker ran.
//
// A schedule starts a job each time, which is a session of its own ([Spec.Job]), or sends one
// session a message each time ([Spec.Message]), which continues its conversation.
package schedules
