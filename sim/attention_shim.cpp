// Drives a Verilated attention core from arrays, cycle by cycle: a job, streams Q, K and V in, AV out. Called by
// sim/attention_array.py through ctypes.
//
// Set by the file that includes this one: Q_BYTES, K_BYTES, V_BYTES and AV_BYTES, the bytes of each tdata, and
// READ_STATUS(unit, values), which copies the status outputs. Verilator keeps a port in the low bytes of a word or of an
// array of words, so on a little-endian machine ports of all widths are copied as bytes.

#include <cstdint>
#include <cstring>

#include "Vunit.h"
#include "verilated.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ports are copied byte by byte");

namespace {

constexpr int KEEP_BYTES = (AV_BYTES + 7) / 8;

struct Model {
    VerilatedContext context;
    Vunit unit{&context};
};

// xorshift64 (Marsaglia, Journal of Statistical Software 8(14), 2003): one state for each port.
struct Chance {
    uint64_t state;
    uint32_t share;  // of 65536

    bool operator()() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return (state >> 48) < share;
    }
};

void tick(Vunit& unit) {
    unit.aclk = 1;
    unit.eval();
    unit.aclk = 0;
}

}  // namespace

extern "C" {

enum Ending { DONE = 0, STALLED = 1, VALID_FELL = 3, PAYLOAD_CHANGED = 4, BEAT_TOO_MANY = 5 };

struct Job {
    uint32_t queries, keys, heads, causal;
};

struct Source {
    const uint8_t* data;
    int64_t* cycle;
    int64_t beats;
};

struct Sink {
    uint8_t* data;
    uint8_t* keep;
    uint8_t* last;
    int64_t* cycle;
    int64_t beats;  // expected
};

struct Rhythm {
    uint64_t seed;
    uint32_t offer_share, take_share;
    int64_t patience_cycles, drain_cycles;
};

struct Seen {
    int64_t delivered, cycles, accepted[3];
};

Model* einrtl_new() { return new Model; }

void einrtl_delete(Model* model) { delete model; }

void einrtl_reset(Model* model) {
    Vunit& unit = model->unit;
    unit.aresetn = 0;
    unit.job_valid = unit.s_axis_q_tvalid = unit.s_axis_k_tvalid = unit.s_axis_v_tvalid = unit.m_axis_tready = 0;
    unit.aclk = 0;
    unit.eval();
    for (int cycle = 0; cycle < 4; ++cycle) tick(unit);
    unit.aresetn = 1;
    unit.eval();
}

void einrtl_status(Model* model, uint64_t* values) { READ_STATUS(model->unit, values); }

int einrtl_run(Model* model, const Job* job, const Source* sources, const Sink* out, const Rhythm* rhythm, Seen* seen) {
    Vunit& unit = model->unit;
    const uint64_t seed = rhythm->seed;
    Chance offer[3] = {{(seed * 3 + 1) | 1, rhythm->offer_share}, {(seed * 5 + 2) | 1, rhythm->offer_share},
                       {(seed * 7 + 4) | 1, rhythm->offer_share}};
    Chance take{~seed | 1, rhythm->take_share};
    uint8_t held_data[AV_BYTES], held_keep[KEEP_BYTES], held_last = 0;
    bool offering[3] = {false, false, false}, waiting = false, asking = true;
    int64_t idle = 0, drained = 0;
    *seen = Seen{0, 0, {0, 0, 0}};
    int ending = DONE;
    unit.job_queries = job->queries;
    unit.job_keys = job->keys;
    unit.job_heads = job->heads;
    unit.job_causal = job->causal;
    for (;; ++seen->cycles) {
        const bool complete = !asking && seen->delivered == out->beats && !unit.busy;
        if (complete && drained++ == rhythm->drain_cycles) break;
        unit.job_valid = asking;
        for (int port = 0; port < 3; ++port) {
            const Source& source = sources[port];
            if (offering[port] || seen->accepted[port] == source.beats || !offer[port]()) continue;
            offering[port] = true;
            const uint8_t* beat = source.data;
            const int64_t at = seen->accepted[port];
            if (port == 0) std::memcpy(&unit.s_axis_q_tdata, beat + at * Q_BYTES, Q_BYTES);
            if (port == 1) std::memcpy(&unit.s_axis_k_tdata, beat + at * K_BYTES, K_BYTES);
            if (port == 2) std::memcpy(&unit.s_axis_v_tdata, beat + at * V_BYTES, V_BYTES);
        }
        unit.s_axis_q_tvalid = offering[0];
        unit.s_axis_k_tvalid = offering[1];
        unit.s_axis_v_tvalid = offering[2];
        unit.m_axis_tready = take();
        unit.eval();

        if (waiting && !unit.m_axis_tvalid) { ending = VALID_FELL; break; }
        if (waiting && (std::memcmp(held_data, &unit.m_axis_tdata, AV_BYTES) ||
                        std::memcmp(held_keep, &unit.m_axis_tkeep, KEEP_BYTES) || held_last != unit.m_axis_tlast)) {
            ending = PAYLOAD_CHANGED;
            break;
        }
        const bool moved_out = unit.m_axis_tvalid && unit.m_axis_tready;
        waiting = unit.m_axis_tvalid && !unit.m_axis_tready;
        if (waiting) {
            std::memcpy(held_data, &unit.m_axis_tdata, AV_BYTES);
            std::memcpy(held_keep, &unit.m_axis_tkeep, KEEP_BYTES);
            held_last = unit.m_axis_tlast;
        }
        if (moved_out) {
            if (seen->delivered == out->beats) { ending = BEAT_TOO_MANY; break; }
            std::memcpy(out->data + seen->delivered * AV_BYTES, &unit.m_axis_tdata, AV_BYTES);
            std::memcpy(out->keep + seen->delivered * KEEP_BYTES, &unit.m_axis_tkeep, KEEP_BYTES);
            out->last[seen->delivered] = unit.m_axis_tlast;
            out->cycle[seen->delivered++] = seen->cycles;
        }
        bool moved = moved_out;
        const bool ready[3] = {bool(unit.s_axis_q_tready), bool(unit.s_axis_k_tready), bool(unit.s_axis_v_tready)};
        for (int port = 0; port < 3; ++port) {
            if (!offering[port] || !ready[port]) continue;
            sources[port].cycle[seen->accepted[port]++] = seen->cycles;
            offering[port] = false;
            moved = true;
        }
        if (asking && unit.job_ready) {
            asking = false;
            moved = true;
        }
        idle = moved ? 0 : idle + 1;
        if (idle > rhythm->patience_cycles) { ending = STALLED; break; }
        tick(unit);
    }
    unit.job_valid = unit.s_axis_q_tvalid = unit.s_axis_k_tvalid = unit.s_axis_v_tvalid = unit.m_axis_tready = 0;
    unit.eval();
    return ending;
}
}
