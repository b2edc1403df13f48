//! Devices and their server.

use super::{AtTool, InTransit, Parted, Stage};
use crate::devices::Replica;
use crate::wire::{Delivery, Frame, How, Role, ToPart, Which};

/// What wall clocks say when a device's request arrives.
#[derive(Clone, Copy, Debug, Default)]
pub struct Walls {
    /// The server's.
    pub ours: u64,
    /// The device's.
    pub theirs: u64,
}

impl Stage {
    pub(super) fn accept_operation(&mut self, connection: u64, frame: Frame) {
        let key = match &frame {
            Frame::Operation(operation) => operation.number,
            Frame::Pull { operation, .. } => *operation,
            _ => return,
        };
        let which = Which { key, generation: 1, attempt: 1 };
        self.in_transit.push(InTransit { connection, frame, which, from: 0, cut: false });
    }

    fn operation_at(&self, operation: u8) -> Option<usize> {
        self.in_transit.iter().position(|sent| sent.which.key == operation && matches!(sent.frame, Frame::Operation(_)))
    }

    /// Whether an operation is on its way to the server.
    pub fn is_on_its_way(&self, operation: u8) -> bool {
        self.operation_at(operation).is_some()
    }

    async fn on_its_way(&mut self, operation: u8) -> Result<usize, Parted> {
        self.until(
            || format!("operation {operation} is on its way to the server"),
            |stage| stage.operation_at(operation),
        )
        .await
    }

    /// What a replica holds, and a device has yet to hear of.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn show(&mut self, role: Role) -> Result<(Replica, Vec<u8>), Parted> {
        let id = self.number();
        self.say(role, ToPart::Show { id });
        self.until(|| format!("{role} shows what it holds"), |stage| stage.shown.remove(&id)).await
    }

    /// A device makes an operation at this time of its clock.
    ///
    /// # Errors
    /// If it does not.
    pub async fn device_makes(&mut self, device: u8, operation: u8, wall: u64) -> Result<(), Parted> {
        self.command(Role::Device(device), |id| ToPart::Make { id, operation, wall }).await
    }

    /// A device sends an operation.
    ///
    /// # Errors
    /// If it does not.
    pub async fn device_sends(&mut self, device: u8, operation: u8) -> Result<(), Parted> {
        self.command(Role::Device(device), |id| ToPart::SendOperation { id, operation }).await?;
        self.on_its_way(operation).await.map(drop)
    }

    async fn at_the_server(&mut self, what: InTransit, how: How, clocks: Walls) -> Result<(), Parted> {
        let number = self.number();
        let delivery = Delivery { number, frame: what.frame.clone(), how, now: clocks.ours, theirs: clocks.theirs };
        self.at_tool.insert(number, AtTool { what, stopped: false, working: false });
        self.hand_to(Role::Server, delivery);
        self.until(
            || "the server deals with what it gets".to_owned(),
            |stage| stage.at_tool.get(&number).is_none_or(|at| at.stopped).then_some(()),
        )
        .await
    }

    /// Whoever asked hears what has come back, and has dealt with it.
    async fn comes_back(&mut self, device: u8) -> Result<(), Parted> {
        let Some(back) = self.back.pop() else { return Ok(()) };
        let before = self.heard;
        self.send_back(back.connection, back.reply);
        self.until(|| format!("device {} hears of it", device + 1), |stage| (stage.heard > before).then_some(())).await
    }

    /// An operation arrives at the server; its acknowledgement arrives or is lost.
    ///
    /// # Errors
    /// If it is not on its way.
    pub async fn operation_arrives(
        &mut self,
        operation: u8,
        how: How,
        acknowledged: bool,
        clocks: Walls,
    ) -> Result<(), Parted> {
        let at = self.on_its_way(operation).await?;
        let what = self.in_transit.remove(at);
        let Frame::Operation(of) = &what.frame else { return Ok(()) };
        let device = of.device;
        self.at_the_server(what, how, clocks).await?;
        if how == How::StopAfter {
            self.kill_and_restart(Role::Server).await?;
        }
        if acknowledged {
            self.comes_back(device).await?;
        }
        self.back.clear();
        Ok(())
    }

    /// A request is lost.
    ///
    /// # Errors
    /// If it is not on its way.
    pub async fn operation_lost(&mut self, operation: u8) -> Result<(), Parted> {
        let at = self.on_its_way(operation).await?;
        self.in_transit.remove(at);
        Ok(())
    }

    /// A request is doubled.
    ///
    /// # Errors
    /// If it is not on its way.
    pub async fn operation_doubled(&mut self, operation: u8) -> Result<(), Parted> {
        let at = self.on_its_way(operation).await?;
        let copy = self.in_transit[at].clone();
        self.in_transit.push(copy);
        Ok(())
    }

    /// `kill -9` for a device's process, and another in its place, which sends again what was on its way.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn device_restarts(&mut self, device: u8) -> Result<(), Parted> {
        let before = self.in_transit.len();
        let sent = self
            .in_transit
            .iter()
            .filter(|sent| matches!(&sent.frame, Frame::Operation(of) if of.device == device))
            .count();
        self.kill_and_restart(Role::Device(device)).await?;
        let again = before + sent.min(1);
        self.until(
            || format!("device {} sends again what was on its way", device + 1),
            |stage| (stage.in_transit.len() >= again).then_some(()),
        )
        .await
    }

    /// A device gets an operation from the server.
    ///
    /// # Errors
    /// If it does not.
    pub async fn device_pulls(&mut self, device: u8, operation: u8) -> Result<(), Parted> {
        self.say(Role::Device(device), ToPart::Pull { operation });
        let at = self
            .until(
                || format!("device {} asks the server", device + 1),
                |stage| stage.in_transit.iter().position(|sent| matches!(sent.frame, Frame::Pull { .. })),
            )
            .await?;
        let what = self.in_transit.remove(at);
        self.at_the_server(what, How::Answered, Walls::default()).await?;
        self.comes_back(device).await
    }
}
