// Drives a Verilated block with several AXI4-Stream inputs and one output from arrays, cycle by cycle; sim/streams.py
// calls it through ctypes.
//
// Set by the file that includes this one: INPUTS, the number of input streams; put(unit, port, data, last),
// offer(unit, port, valid) and ready(unit, port) for each of them, after the includes below (they stand in GLUE);
// OUT_BYTES, the bytes of m_axis_tdata; READ_STATUS(unit, values). Verilator keeps a port in the low bytes of a word or
// of an array of words, so on a little-endian machine ports of all widths are copied as bytes.

#include <cstdint>
#include <cstring>

#include "Vunit.h"
#include "verilated.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ports are copied byte by byte");

namespace {

GLUE

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

// The next evaluation, with new inputs, is also that of the falling edge, on which nothing happens.
void tick(Vunit& unit) {
    unit.aclk = 1;
    unit.eval();
    unit.aclk = 0;
}

}  // namespace

extern "C" {

enum Ending { DONE = 0, STALLED = 1, VALID_FELL = 2, PAYLOAD_CHANGED = 3, BEAT_TOO_MANY = 4 };

struct Stream {
    uint8_t* data;
    uint8_t* last;
    int64_t* cycle;
    int64_t beats;
    int64_t bytes;
    uint64_t seed;
    uint32_t share;
};

struct Seen {
    int64_t cycles;
    int64_t moved[INPUTS + 1];  // the output is the last
};

Model* einrtl_new() { return new Model; }

void einrtl_delete(Model* model) { delete model; }

void einrtl_reset(Model* model) {
    Vunit& unit = model->unit;
    unit.aresetn = 0;
    for (int port = 0; port < INPUTS; ++port) offer(unit, port, false);
    unit.m_axis_tready = 0;
    unit.aclk = 0;
    unit.eval();
    for (int cycle = 0; cycle < 4; ++cycle) tick(unit);
    unit.aresetn = 1;
    unit.eval();
}

void einrtl_status(Model* model, uint64_t* values) { READ_STATUS(model->unit, values); }

int einrtl_run(Model* model, const Stream* streams, int64_t patience, int64_t drain, Seen* seen) {
    Vunit& unit = model->unit;
    const Stream& out = streams[INPUTS];
    Chance chance[INPUTS + 1];
    for (int port = 0; port <= INPUTS; ++port) chance[port] = Chance{streams[port].seed | 1, streams[port].share};
    uint8_t held_data[OUT_BYTES], held_last = 0;
    bool offering[INPUTS] = {}, waiting = false;
    int64_t idle = 0, drained = 0, total = 0, moved_all = 0;
    for (int port = 0; port <= INPUTS; ++port) total += streams[port].beats;
    *seen = Seen{};
    int64_t& delivered = seen->moved[INPUTS];
    int ending = DONE;
    for (;; ++seen->cycles) {
        const bool complete = moved_all == total;
        if (complete && drained++ == drain) break;
        for (int port = 0; port < INPUTS; ++port) {
            const Stream& in = streams[port];
            const int64_t next = seen->moved[port];
            if (!offering[port] && next < in.beats && chance[port]()) {
                offering[port] = true;
                put(unit, port, in.data + next * in.bytes, in.last[next]);
            }
            offer(unit, port, offering[port]);
        }
        unit.m_axis_tready = complete || chance[INPUTS]();
        unit.eval();

        if (waiting && !unit.m_axis_tvalid) { ending = VALID_FELL; break; }
        if (waiting && (std::memcmp(held_data, &unit.m_axis_tdata, OUT_BYTES) || held_last != unit.m_axis_tlast)) {
            ending = PAYLOAD_CHANGED;
            break;
        }
        bool moved = false;
        const bool moved_out = unit.m_axis_tvalid && unit.m_axis_tready;
        waiting = unit.m_axis_tvalid && !unit.m_axis_tready;
        if (waiting) {
            std::memcpy(held_data, &unit.m_axis_tdata, OUT_BYTES);
            held_last = unit.m_axis_tlast;
        }
        if (moved_out) {
            if (delivered == out.beats) { ending = BEAT_TOO_MANY; break; }
            std::memcpy(out.data + delivered * OUT_BYTES, &unit.m_axis_tdata, OUT_BYTES);
            out.last[delivered] = unit.m_axis_tlast;
            out.cycle[delivered++] = seen->cycles;
            ++moved_all;
            moved = true;
        }
        for (int port = 0; port < INPUTS; ++port) {
            if (offering[port] && ready(unit, port)) {
                streams[port].cycle[seen->moved[port]++] = seen->cycles;
                offering[port] = false;
                ++moved_all;
                moved = true;
            }
        }
        idle = moved ? 0 : idle + 1;
        if (!complete && idle > patience) { ending = STALLED; break; }
        tick(unit);
    }
    for (int port = 0; port < INPUTS; ++port) offer(unit, port, false);
    unit.m_axis_tready = 0;
    unit.eval();
    return ending;
}
}
