package launch

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
)

// Report has the addresses of everything. Its JSON form is what --json prints; it
// holds no secret.
type Report struct {
	// TemporalAddress is host:port of the Temporal frontend.
	TemporalAddress string `json:"temporalAddress"`
	// TemporalNamespace is the namespace made at start.
	TemporalNamespace string `json:"temporalNamespace"`
	// UIURL is the address of the Web UI.
	UIURL string `json:"uiUrl"`
	// NATSURL is the address of NATS.
	NATSURL string `json:"natsUrl"`
	// S3Endpoint is the address of the S3 gateway.
	S3Endpoint string `json:"s3Endpoint"`
	// S3Region is the region the gateway answers for.
	S3Region string `json:"s3Region"`
	// Bucket is the bucket made at start.
	Bucket string `json:"bucket"`
	// DataDir is the folder with everything.
	DataDir string `json:"dataDir"`
	// EnvFile is the settings file.
	EnvFile string `json:"envFile"`
	// PID is the process to signal.
	PID int `json:"pid"`
}

// Env returns the settings that Sojourn's programs read.
func (r Report) Env(keys Credentials) []Var {
	return []Var{
		{"TEMPORAL_ADDRESS", r.TemporalAddress},
		{"TEMPORAL_NAMESPACE", r.TemporalNamespace},
		{"NATS_URL", r.NATSURL},
		{"NATS_TOKEN", keys.NATSToken},
		{"AWS_ENDPOINT_URL_S3", r.S3Endpoint},
		{"AWS_ACCESS_KEY_ID", keys.AccessKeyID},
		{"AWS_SECRET_ACCESS_KEY", keys.SecretAccessKey},
		{"AWS_REGION", r.S3Region},
		{"SOJOURN_BUCKET", r.Bucket},
		{"SOJOURN_UI_URL", r.UIURL},
		{"SOJOURN_DEVSTACK_PID", strconv.Itoa(r.PID)},
	}
}

// WriteTable writes the report for a person.
func (r Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(t, "Web UI\t%s\n", r.UIURL)
	fmt.Fprintf(t, "Temporal\t%s\tnamespace %s\n", r.TemporalAddress, r.TemporalNamespace)
	fmt.Fprintf(t, "NATS\t%s\n", r.NATSURL)
	fmt.Fprintf(t, "S3\t%s\tbucket %s\n", r.S3Endpoint, r.Bucket)
	fmt.Fprintf(t, "Data\t%s\n", r.DataDir)
	fmt.Fprintf(t, "Settings\t%s\n", r.EnvFile)
	if err := t.Flush(); err != nil {
		return fmt.Errorf("print addresses: %w", err)
	}
	return nil
}

// WriteJSON writes the report as one JSON object on one line.
func (r Report) WriteJSON(w io.Writer) error {
	if err := json.NewEncoder(w).Encode(r); err != nil {
		return fmt.Errorf("print addresses: %w", err)
	}
	return nil
}
