package chaos

import "time"

// hostile are scripts whose tools leave behind what could keep a session from
// being closed, or its worker from living. Every one must end, by an answer or by
// a failure with a name, and so must the close.
var hostile = []string{
	"SAY " + mark + " locks THEN TOOL bash: mkdir -p locked/in; chmod 000 locked/in locked . \"$HOME\" THEN SAY " + mark + " locked",
	"SAY " + mark + " digs THEN TOOL bash: d=$(printf 'x%.0s' $(seq 50)); for i in $(seq 500); do mkdir $d && cd -P $d || break; done; echo $i THEN SAY " + mark + " dug",
	"SAY " + mark + " shouts THEN TOOL bash: head -c 30000000 /dev/zero | tr '\\0' x; echo THEN SAY " + mark + " shouted",
	"SAY " + mark + " spoils THEN TOOL bash: for f in $(find \"$HOME\" -name '*.jsonl'); do head -c 300000000 /dev/zero | tr '\\0' x >> \"$f\"; done THEN SAY " + mark + " spoilt",
	fills,
}

// hostile lets a session of its own run a hostile script beside the others; what
// fills a disk is kept for the end.
func (d *driver) hostile(pick uint64) bool {
	agent := d.o.Agents[pick%uint64(len(d.o.Agents))]
	script := hostile[pick/7%uint64(len(hostile))]
	if script == fills {
		d.disks = append(d.disks, agent)
		return true
	}
	d.mu.Lock()
	d.hostiles++
	n := 700 + d.hostiles
	d.mu.Unlock()
	ctx := d.running
	d.hosts.owned.Go(func() {
		s, err := d.sit(ctx, n, agent)
		if err != nil {
			d.fault(Finding{Fault: Stuck, Kind: HostileTool, Agent: agent, Detail: err.Error()})
			return
		}
		s.hostile = true
		s.say(ctx, script)
		s.finish(ctx)
	})
	return true
}

// hostileHit marks the turn of a hostile script.
func hostileHit() []Hit { return []Hit{{Kind: HostileTool, At: time.Now()}} }
